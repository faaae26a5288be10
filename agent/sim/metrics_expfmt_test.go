package sim

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func families(t testing.TB, g *rig) map[string]*dto.MetricFamily {
	t.Helper()
	_, body := g.post("/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestMetricsParse(t *testing.T) {
	cfg := Instant()
	cfg.LegacyMetrics = true
	g, stop := start(t, cfg)
	defer stop()
	g.post("/v1/completions", prompt(10, 3, ""))
	found := families(t, g)
	for name, kind := range map[string]dto.MetricType{
		"vllm:num_requests_running":          dto.MetricType_GAUGE,
		"vllm:num_requests_waiting":          dto.MetricType_GAUGE,
		"vllm:kv_cache_usage_perc":           dto.MetricType_GAUGE,
		"vllm:gpu_cache_usage_perc":          dto.MetricType_GAUGE,
		"vllm:cache_config_info":             dto.MetricType_GAUGE,
		"vllm:num_preemptions_total":         dto.MetricType_COUNTER,
		"vllm:request_success_total":         dto.MetricType_COUNTER,
		"vllm:time_to_first_token_seconds":   dto.MetricType_HISTOGRAM,
		"vllm:inter_token_latency_seconds":   dto.MetricType_HISTOGRAM,
		"vllm:time_per_output_token_seconds": dto.MetricType_HISTOGRAM,
		"vllm:e2e_request_latency_seconds":   dto.MetricType_HISTOGRAM,
		"vllm:request_prompt_tokens":         dto.MetricType_HISTOGRAM,
		"vllm:request_generation_tokens":     dto.MetricType_HISTOGRAM,
	} {
		if f := found[name]; f == nil || f.GetType() != kind {
			t.Errorf("%s: %v", name, f)
		}
	}
	if n := found["vllm:inter_token_latency_seconds"].GetMetric()[0].GetHistogram().GetSampleCount(); n != 2 {
		t.Errorf("%d inter-token samples", n)
	}
}
