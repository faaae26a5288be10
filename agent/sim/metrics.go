package sim

import (
	"net/http"
	"slices"
	"strconv"
)

// exposition writes the Prometheus text format by hand: a page is a few
// kilobytes and may be asked for many times a second.
type exposition struct {
	b      []byte
	labels string // of every series, without braces
}

func (x *exposition) head(name, kind, help string) {
	x.b = append(x.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (x *exposition) sample(name, more string, value float64) {
	x.b = append(x.b, name+"{"+x.labels+more+"} "...)
	x.b = strconv.AppendFloat(x.b, value, 'f', -1, 64)
	x.b = append(x.b, '\n')
}

func (x *exposition) gauge(name, help string, value float64) {
	x.head(name, "gauge", help)
	x.sample(name, "", value)
}

func (x *exposition) counter(name, help string, value int64) {
	x.head(name, "counter", help)
	x.sample(name, "", float64(value))
}

func (x *exposition) histogram(name, help string, h *histogram) {
	x.head(name, "histogram", help)
	sum := int64(0)
	for i, n := range h.counts {
		le := "+Inf"
		if i < len(h.bounds) {
			le = strconv.FormatFloat(h.bounds[i], 'f', -1, 64)
			if h.bounds[i] == float64(int64(h.bounds[i])) {
				le += ".0" // as Python prints it
			}
		}
		sum += n
		x.sample(name+"_bucket", `,le="`+le+`"`, float64(sum))
	}
	x.sample(name+"_count", "", float64(sum))
	x.sample(name+"_sum", "", h.sum)
}

// serveMetrics answers /metrics with the names, types and labels of vLLM.
func (s *Server) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	x := exposition{b: make([]byte, 0, 16<<10)}
	model := `model_name="` + jsonInner(s.cfg.Models[0]) + `"`
	x.labels = `engine="0",` + model

	s.mu.Lock()
	e, m := s.engine, s.meters
	x.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", float64(e.running))
	x.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(e.waiting))
	x.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", e.usage())
	if s.cfg.LegacyMetrics {
		x.gauge("vllm:gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", e.usage())
	}
	x.counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", m.cacheQueries)
	x.counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", m.cacheHits)
	x.counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", 0)
	x.counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", m.promptTokens)
	x.counter("vllm:generation_tokens_total", "Number of generation tokens processed.", m.generatedTokens)
	x.sleepState(e.asleep)
	const success = "vllm:request_success_total"
	x.head(success, "counter", "Count of successfully processed requests.")
	for _, reason := range finishReasons {
		x.sample(success, `,finished_reason="`+reason+`"`, float64(m.success[reason]))
	}
	x.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", &m.ttft)
	x.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", &m.itl)
	if s.cfg.LegacyMetrics {
		x.histogram("vllm:time_per_output_token_seconds", "Histogram of time per output token in seconds.", &m.itl)
	}
	x.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", &m.e2e)
	x.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", &m.queue)
	x.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", &m.prompt)
	x.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", &m.generation)
	adapters := s.adapterNames()
	s.mu.Unlock()

	x.labels = `block_size="` + strconv.Itoa(s.cfg.BlockChars/CharsPerToken) + `",cache_dtype="auto",enable_prefix_caching="` +
		pyBool(s.cfg.PrefixCache) + `",engine="0",num_gpu_blocks="` + strconv.Itoa(s.cfg.blocks()) + `"`
	x.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", 1)
	if len(adapters) > 0 {
		x.labels = `max_lora="` + strconv.Itoa(len(adapters)) + `",running_lora_adapters="",waiting_lora_adapters=""`
		x.gauge("vllm:lora_requests_info", "Running stats on lora requests.", 0)
	}
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	_, _ = w.Write(x.b) // a scraper that went away needs no answer
}

// blocks is the number of KV blocks the simulated device has.
func (c *Config) blocks() int { return c.PrefixCacheChars / c.BlockChars }

// usage is the share of KV blocks that running sequences hold, at most 1.
func (e *engine) usage() float64 {
	return min(1, float64(e.kv*CharsPerToken)/float64(e.cfg.PrefixCacheChars))
}

// adapterNames lists the loaded adapters in order. The caller holds mu.
func (s *Server) adapterNames() []string {
	names := make([]string, 0, len(s.adapters))
	for name := range s.adapters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func pyBool(v bool) string {
	if v {
		return "True"
	}
	return "False"
}
