package engine

import "context"

// VLLM is vLLM. Which APIs it serves depends on the model, so the engine refuses by
// itself.
var VLLM = &Kind{
	Name: "vllm", info: vllmInfo,
	Adapters: &AdapterRoutes{"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}, // with VLLM_ALLOW_RUNTIME_LORA_UPDATING
	Metrics: Names{
		Running:     []string{"vllm:num_requests_running"},
		Waiting:     []string{"vllm:num_requests_waiting"},
		CacheUse:    []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
		Queries:     []string{"vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"},
		Hits:        []string{"vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"},
		Preemptions: []string{"vllm:num_preemptions_total", "vllm:num_preemptions"},
		TTFT:        []string{"vllm:time_to_first_token_seconds"},
		ITL:         []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
	},
}

// vllmInfo reads the version, and whether the engine sleeps, which it tells in its
// development mode. Its cache is described on its metrics page.
func vllmInfo(ctx context.Context, c Client) Info {
	var v struct {
		Version string `json:"version"`
	}
	var s struct {
		Sleeping bool `json:"is_sleeping"`
	}
	ask(ctx, c, "/version", &v)
	ask(ctx, c, "/is_sleeping", &s)
	return Info{Version: v.Version, Asleep: s.Sleeping}
}
