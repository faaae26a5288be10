package sim

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var sampleLine = regexp.MustCompile(`^([a-z0-9_:]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+)\} ([0-9.e+-]+)$`)

// metricsOf reads the page: values by name and, for series with labels of
// their own, by name{labels}.
func metricsOf(t testing.TB, g *rig) map[string]float64 {
	t.Helper()
	_, body := g.post("/metrics", "")
	out := map[string]float64{}
	kinds := map[string]string{}
	for line := range strings.Lines(body) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			if kinds[name] != "" {
				t.Errorf("%s has two types", name)
			}
			kinds[name] = kind
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a sample: %q", line)
			continue
		}
		name := m[1]
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if base := strings.TrimSuffix(name, suffix); kinds[base] == "histogram" {
				name = base
			}
		}
		if kinds[name] == "" {
			t.Errorf("%s has no type", name)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Error(err)
		}
		out[m[1]] = v
		out[m[1]+"{"+m[2]+"}"] = v
	}
	return out
}

func TestMetrics(t *testing.T) {
	cfg := Instant()
	cfg.Models = []string{`m"x`}
	cfg.LegacyMetrics = true
	g, stop := start(t, cfg)
	defer stop()
	g.post("/v1/completions", prompt(10, 3, ""))
	page := metricsOf(t, g)
	const labels = `engine="0",model_name="m\"x"`
	for series, want := range map[string]float64{
		"vllm:num_requests_running{" + labels + "}":                                                                                  0,
		"vllm:num_requests_waiting{" + labels + "}":                                                                                  0,
		"vllm:kv_cache_usage_perc{" + labels + "}":                                                                                   0,
		"vllm:gpu_cache_usage_perc{" + labels + "}":                                                                                  0,
		"vllm:num_preemptions_total{" + labels + "}":                                                                                 0,
		"vllm:prompt_tokens_total{" + labels + "}":                                                                                   3,
		"vllm:generation_tokens_total{" + labels + "}":                                                                               3,
		"vllm:request_success_total{" + labels + `,finished_reason="length"}`:                                                        1,
		"vllm:time_to_first_token_seconds_count{" + labels + "}":                                                                     1,
		"vllm:inter_token_latency_seconds_count{" + labels + "}":                                                                     2,
		"vllm:time_per_output_token_seconds_count{" + labels + "}":                                                                   2,
		"vllm:e2e_request_latency_seconds_bucket{" + labels + `,le="+Inf"}`:                                                          1,
		"vllm:request_prompt_tokens_bucket{" + labels + `,le="5.0"}`:                                                                 1,
		"vllm:request_generation_tokens_bucket{" + labels + `,le="2.0"}`:                                                             0,
		`vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="False",engine="0",num_gpu_blocks="65536"}`: 1,
	} {
		if got, ok := page[series]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", series, got, ok, want)
		}
	}
}
