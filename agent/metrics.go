package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbus/tokenbus/bus"
)

// Metrics gives what Prometheus is shown of the agents of a process. It is what they
// say of themselves on the bus: what is unknown or stale is absent (invariant 11).
func Metrics(agents ...*Agent) prometheus.Collector {
	return &collector{records: func() []bus.Record {
		list := make([]bus.Record, 0, len(agents))
		for _, a := range agents {
			list = append(list, a.Record())
		}
		return list
	}}
}

type collector struct{ records func() []bus.Record }

// maxModels bounds the models that are named of one agent (invariant 10).
const maxModels = 128

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("tokenbus_agent_"+name, help, append([]string{"agent"}, labels...), nil)
}

var (
	descInfo   = desc("info", "Always 1; the labels tell what the agent is.", "region", "machine", "engine", "engine_version", "gpu_model", "version")
	descModel  = desc("model_info", "Always 1; one for each model that the agent serves.", "model")
	descStatus = desc("status", "1 for the status that the agent has, 0 for the others.", "status")
	descUp     = desc("engine_up", "Whether the engine is well.")

	descActive   = desc("active_requests", "Requests that hold a slot.")
	descCapacity = desc("capacity_requests", "Slots.")
	descTokens   = desc("active_tokens", "Prompts and expected output of the active requests, estimated.")
	descRoom     = desc("engine_cache_tokens", "Room of the engine's prefix cache.")
	descAge      = desc("signals_age_seconds", "Age of the oldest measurement of the engine that is shown.")
)

// signals are the measurements of a record by their names there. Milliseconds are
// shown as seconds.
var signals = map[string]struct {
	desc  *prometheus.Desc
	scale float64
}{
	"kv_cache_utilization": {desc("engine_kv_cache_utilization_ratio", "Share of the engine's KV cache in use."), 1},
	"running_requests":     {desc("engine_running_requests", "Requests that the engine runs."), 1},
	"waiting_requests":     {desc("engine_waiting_requests", "Requests that wait in the engine."), 1},
	"avg_ttft_seconds":     {desc("engine_ttft_average_seconds", "Mean time to the first token at the engine, within the window."), 1},
	"p90_ttft_seconds":     {desc("engine_ttft_p90_seconds", "The same, 90th percentile."), 1},
	"avg_itl_seconds":      {desc("engine_itl_average_seconds", "Mean time between two tokens at the engine, within the window."), 1},
	"p90_itl_seconds":      {desc("engine_itl_p90_seconds", "The same, 90th percentile."), 1},
	"prefix_hit_rate":      {desc("engine_prefix_hit_ratio", "Share of the prompt tokens that the engine had cached, within the window."), 1},
	"preemption_rate":      {desc("engine_preemptions_per_second", "Preemptions of the engine, within the window."), 1},

	"success_rate":         {desc("success_ratio", "Share of the finished requests of the last minute that succeeded."), 1},
	"consecutive_failures": {desc("consecutive_failures", "Failures since the last success."), 1},
	"srtt":                 {desc("smoothed_first_byte_seconds", "Smoothed time from dispatch to first byte."), 1e-3},
	"predicted_hit_rate":   {desc("prefix_predicted_hit_ratio", "Share of the prompts that the schedulers expected in the engine's cache."), 1},
	"cached_hit_rate":      {desc("prefix_cached_hit_ratio", "Share of the same prompts that the engine says it had cached."), 1},
}

// ofEngine are the signals that come from the engine and become stale.
var ofEngine = func() map[string]bool {
	m := make(map[string]bool)
	for name, s := range signals {
		m[name] = strings.Contains(s.desc.String(), `"tokenbus_agent_engine_`)
	}
	return m
}()

// statuses are those that an agent can show.
var statuses = []bus.Status{bus.StatusStarting, bus.StatusReady, bus.StatusCordoned, bus.StatusDraining}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descInfo, descModel, descStatus, descUp, descActive, descCapacity, descTokens, descRoom, descAge} {
		ch <- d
	}
	for _, s := range signals {
		ch <- s.desc
	}
	describeCounters(ch)
	describeHardware(ch)
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, r := range c.records() {
		collect(ch, &r, time.Now())
	}
}

func collect(ch chan<- prometheus.Metric, r *bus.Record, now time.Time) {
	id := clean(r.ID)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{id}, labels...)...)
	}
	gauge(descInfo, 1, clean(r.Region), clean(r.Machine), clean(r.Engine), clean(r.EngineVersion), clean(r.GPUModel), clean(r.Version))
	for _, name := range modelNames(r.Models) {
		gauge(descModel, 1, name)
	}
	for _, s := range statuses {
		gauge(descStatus, fact(r.Status == s), string(s))
	}
	gauge(descUp, fact(r.EngineHealth == bus.HealthOK))
	gauge(descActive, float64(r.Active))
	gauge(descCapacity, float64(r.Capacity))
	gauge(descTokens, float64(r.State.Tokens))
	if r.CacheTokens > 0 {
		gauge(descRoom, float64(r.CacheTokens))
	}
	if r.Counters != nil {
		collectCounters(func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{id}, labels...)...)
		}, r.Counters)
	}
	if r.Latencies != nil {
		collectLatencies(gauge, r.Latencies)
	}
	engine := false
	for name, v := range r.Signals {
		if s, ok := signals[name]; ok {
			gauge(s.desc, v*s.scale)
			engine = engine || ofEngine[name]
		}
	}
	if r.Hardware != nil {
		collectHardware(gauge, r.Hardware, now.Sub(r.Seen))
	}
	if engine {
		gauge(descAge, (time.Duration(r.SignalAgeMS)*time.Millisecond + max(now.Sub(r.Seen), 0)).Seconds())
	}
}

// modelNames are the names that are shown, each once.
func modelNames(models []bus.Model) []string {
	names := make([]string, 0, len(models))
	for _, m := range models {
		names = append(names, clean(m.ID))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxModels)]
}

// clean makes a text a label, which must be valid UTF-8.
func clean(s string) string { return strings.ToValidUTF8(s, "�") }

func fact(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
