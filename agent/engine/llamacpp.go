package engine

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tokenbus/tokenbus/bus"
)

// LlamaCPP is the server of llama.cpp. It states its slots, and shows metrics when it
// was started with --metrics.
var LlamaCPP = &Kind{
	Name: "llamacpp", health: llamaHealth, info: llamaInfo,
	APIs: generative(bus.Rerank, bus.Tokenize, bus.Detokenize, bus.Responses, bus.Messages, bus.CountTokens),
	Metrics: Names{
		Running:  []string{"llamacpp:requests_processing"},
		Waiting:  []string{"llamacpp:requests_deferred"},
		CacheUse: []string{"llamacpp:kv_cache_usage_ratio"},       // older versions
		Hits:     []string{"llamacpp:prompt_tokens_cached_total"}, // newer versions
		Misses:   []string{"llamacpp:prompt_tokens_total"},
	},
}

// llamaHealth tells loading from ill: both are a 503, and the server listens long before
// it has read its model.
func llamaHealth(ctx context.Context, c Client) error {
	status, _, err := c.Get(ctx, "/health")
	switch {
	case err != nil:
		return err
	case status == http.StatusServiceUnavailable:
		return ErrLoading
	case status != http.StatusOK:
		return fmt.Errorf("/health answers %d", status)
	}
	return nil
}

func llamaInfo(ctx context.Context, c Client) Info {
	var p struct {
		Slots int    `json:"total_slots"`
		Build string `json:"build_info"`
	}
	ask(ctx, c, "/props", &p)
	return Info{Version: p.Build, Capacity: p.Slots}
}
