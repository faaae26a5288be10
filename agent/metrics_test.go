package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tokenbus/tokenbus/bus"
)

// shown is what Prometheus gets of records, by metric.
func shown(t *testing.T, records ...bus.Record) map[string][]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(&collector{records: func() []bus.Record { return records }}); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(r)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			out[strings.TrimPrefix(f.GetName(), "tokenbus_agent_")] = append(out[strings.TrimPrefix(f.GetName(), "tokenbus_agent_")], m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
	return out
}

// TestMetrics: what an agent measures is shown in the units of Prometheus, and what
// it does not measure is absent, not 0 (invariant 11).
func TestMetrics(t *testing.T) {
	now := time.Now()
	r := bus.Record{
		State: bus.State{ID: "a", Status: bus.StatusReady, Active: 3, Capacity: 8, Tokens: 70}, EngineHealth: "ok", CacheTokens: 1000,
		Counters: &bus.AgentCounts{
			Succeeded: 5, CachedTokens: 7, Refused: 2, Refusals: map[string]uint64{"busy": 2}, Failed: 4,
			Failures: map[string]uint64{"idle": 1, "from the future": 3}, Disconnections: 6,
		},
		Latencies:   &bus.Latencies{ITL: &bus.Latency{MS: 20, VarMS: 5}},
		Signals:     map[string]float64{"srtt": 250, "kv_cache_utilization": 0.5, "made_up": 1},
		SignalAgeMS: 2000, Seen: now.Add(-time.Second),
	}
	got := shown(t, r)
	for name, want := range map[string]float64{
		"active_requests": 3, "capacity_requests": 8, "active_tokens": 70, "engine_up": 1, "engine_cache_tokens": 1000,
		"requests_succeeded_total": 5, "disconnections_total": 6, "itl_smoothed_seconds": 0.02, "itl_deviation_seconds": 0.005, "cached_tokens_total": 7, "smoothed_first_byte_seconds": 0.25,
		"engine_kv_cache_utilization_ratio": 0.5,
	} {
		if v := got[name]; len(v) != 1 || v[0] != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	// Classes are in the order of their names; what has none is other.
	if v := got["requests_failed_total"]; !slices.Equal(v, []float64{0, 0, 0, 0, 0, 1, 0, 3, 0}) {
		t.Errorf("failures by class are %v", v)
	}
	if v := got["requests_refused_total"]; !slices.Equal(v, []float64{2, 0, 0, 0, 0}) {
		t.Errorf("refusals by reason are %v", v)
	}
	if age := got["signals_age_seconds"]; len(age) != 1 || age[0] < 3 {
		t.Errorf("the measurements are %v s old, want at least 3", age)
	}
	for _, absent := range []string{"engine_running_requests", "engine_prefix_hit_ratio", "prefix_cached_hit_ratio", "success_ratio", "model_info", "ttft_smoothed_seconds", "e2e_deviation_seconds"} {
		if v, ok := got[absent]; ok {
			t.Errorf("%s is %v without a measurement", absent, v)
		}
	}
	for name := range shown(t, bus.Record{State: bus.State{ID: "a"}, Signals: map[string]float64{"consecutive_failures": 1}}) {
		if name == "signals_age_seconds" || strings.HasPrefix(name, "engine_") && name != "engine_up" || strings.HasSuffix(name, "_total") {
			t.Errorf("%s is shown of an agent that knows nothing of its engine", name)
		}
	}
}

// TestMetricsOfMany: several agents of a process are one page, models are bounded and
// come once each, and texts that are no UTF-8 do no harm.
func TestMetricsOfMany(t *testing.T) {
	a := bus.Record{State: bus.State{ID: "a"}, EngineVersion: "\xff", Models: []bus.Model{{ID: "m"}, {ID: "m"}, {ID: "\xfe"}}}
	b := bus.Record{State: bus.State{ID: "b\xff"}, Region: "\xc3\x28"}
	for i := range 2 * maxModels {
		b.Models = append(b.Models, bus.Model{ID: fmt.Sprint("m-", i)})
	}
	got := shown(t, a, b)
	if n := len(got["info"]); n != 2 {
		t.Errorf("%d agents are shown, want 2", n)
	}
	if n := len(got["model_info"]); n != 2+maxModels {
		t.Errorf("%d models are shown, want %d", n, 2+maxModels)
	}
}

// TestHardware: GPUs are shown each by itself, and gates see the one that has most;
// what could not be read is absent (invariant 11).
func TestHardware(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	size := func(n uint64) *uint64 { return &n }
	h := &bus.Hardware{AgeMS: 1500, CPUUsagePercent: of(25), MemoryTotalBytes: size(1 << 30), GPUs: []bus.GPU{
		{Index: 0, Name: "B", UtilPercent: of(10), VRAMUsedBytes: size(30), VRAMTotalBytes: size(40), TemperatureC: of(-4)},
		{Index: 1, Name: "A", UtilPercent: of(90), VRAMUsedBytes: size(5)},
		{Index: 1, Name: "B", UtilPercent: of(50)},
	}}
	signals := make(map[string]float64)
	hardwareSignals(signals, h)
	want := map[string]float64{"gpu_util_percent": 0.9, "gpu_vram_used_percent": 0.75, "gpu_temperature_c": -4, "cpu_usage_percent": 0.25}
	if !maps.Equal(signals, want) {
		t.Errorf("signals %v, want %v", signals, want)
	}
	if m := gpuModel(h.GPUs); m != "A, B" {
		t.Errorf("GPU model %q", m)
	}
	got := shown(t, bus.Record{State: bus.State{ID: "a"}, Seen: time.Now(), Hardware: h})
	for name, want := range map[string][]float64{
		"gpu_info": {1, 1}, "gpu_utilization_ratio": {0.1, 0.9}, "gpu_memory_used_bytes": {30, 5}, "gpu_memory_total_bytes": {40},
		"gpu_temperature_celsius": {-4}, "gpu_power_watts": nil, "host_cpu_utilization_ratio": {0.25}, "host_memory_total_bytes": {1 << 30},
		"host_memory_utilization_ratio": nil, "host_memory_available_bytes": nil,
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if age := got["hardware_age_seconds"]; len(age) != 1 || age[0] < 1.5 {
		t.Errorf("the hardware's age is %v", age)
	}
	for name, v := range shown(t, bus.Record{State: bus.State{ID: "a"}}) {
		if strings.Contains(name, "gpu_") || strings.Contains(name, "host_") || strings.Contains(name, "hardware") {
			t.Errorf("without hardware, %s is %v", name, v)
		}
	}
}
