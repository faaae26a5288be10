package agent

import (
	"fmt"
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
		Counters:    &bus.AgentCounts{Succeeded: 5, CachedTokens: 7},
		Signals:     map[string]float64{"srtt": 250, "kv_cache_utilization": 0.5, "made_up": 1},
		SignalAgeMS: 2000, Seen: now.Add(-time.Second),
	}
	got := shown(t, r)
	for name, want := range map[string]float64{
		"active_requests": 3, "capacity_requests": 8, "active_tokens": 70, "engine_up": 1, "engine_cache_tokens": 1000,
		"requests_succeeded_total": 5, "requests_failed_total": 0, "cached_tokens_total": 7, "smoothed_first_byte_seconds": 0.25,
		"engine_kv_cache_utilization_ratio": 0.5,
	} {
		if v := got[name]; len(v) != 1 || v[0] != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if age := got["signals_age_seconds"]; len(age) != 1 || age[0] < 3 {
		t.Errorf("the measurements are %v s old, want at least 3", age)
	}
	for _, absent := range []string{"engine_running_requests", "engine_prefix_hit_ratio", "prefix_cached_hit_ratio", "success_ratio", "model_info"} {
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
