package engine

import (
	"context"

	"github.com/tokenbus/tokenbus/bus"
)

// SGLang is SGLang. It shows metrics when it was started with --enable-metrics.
var SGLang = &Kind{
	Name: "sglang", info: sglangInfo,
	Adapters: &AdapterRoutes{"/load_lora_adapter", "/unload_lora_adapter"}, // with --enable-lora
	APIs:     generative(bus.Rerank, bus.Score, bus.Classify, bus.Responses, bus.Messages, bus.Tokenize, bus.Detokenize, bus.Transcriptions),
	Metrics: Names{
		Running:  []string{"sglang:num_running_reqs"},
		Waiting:  []string{"sglang:num_queue_reqs"},
		CacheUse: []string{"sglang:token_usage"},
		Queries:  []string{"sglang:prompt_tokens_total"},
		Hits:     []string{"sglang:cached_tokens_total"},
		TTFT:     []string{"sglang:time_to_first_token_seconds"},
		ITL:      []string{"sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"},
	},
}

func sglangInfo(ctx context.Context, c Client) Info {
	var s struct {
		Version      string `json:"version"`
		MaxRunning   *int   `json:"max_running_requests"`
		MaxTokens    int64  `json:"max_total_num_tokens"`
		PageSize     int    `json:"page_size"`
		DisableRadix *bool  `json:"disable_radix_cache"`
		States       []struct {
			MaxRunning int `json:"max_running_requests"`
		} `json:"internal_states"`
	}
	if !ask(ctx, c, "/get_server_info", &s) && !ask(ctx, c, "/server_info", &s) {
		return Info{}
	}
	i := Info{Version: s.Version, CacheTokens: max(s.MaxTokens, 0), BlockSize: max(s.PageSize, 0)}
	if s.MaxRunning != nil {
		i.Capacity = *s.MaxRunning
	} else {
		for _, state := range s.States { // one a data-parallel rank
			i.Capacity += state.MaxRunning
		}
	}
	if s.DisableRadix != nil {
		on := !*s.DisableRadix
		i.PrefixCaching = &on
	}
	return i
}
