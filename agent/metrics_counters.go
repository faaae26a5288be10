package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbus/tokenbus/bus"
)

// counters are those of a record that have no parts.
var counters = []struct {
	desc *prometheus.Desc
	get  func(*bus.AgentCounts) uint64
}{
	{desc("requests_succeeded_total", "Requests that the engine served, over the agent's life."), func(c *bus.AgentCounts) uint64 { return c.Succeeded }},
	{desc("requests_cancelled_total", "Requests whose caller left."), func(c *bus.AgentCounts) uint64 { return c.Cancelled }},
	{desc("client_errors_total", "Requests that the engine answered with a 4xx."), func(c *bus.AgentCounts) uint64 { return c.ClientErrors }},
	{desc("prompt_tokens_total", "Prompt tokens, as the engine counted them."), func(c *bus.AgentCounts) uint64 { return c.PromptTokens }},
	{desc("completion_tokens_total", "Completion tokens, as the engine counted them."), func(c *bus.AgentCounts) uint64 { return c.CompletionTokens }},
	{desc("cached_tokens_total", "Prompt tokens that the engine had cached."), func(c *bus.AgentCounts) uint64 { return c.CachedTokens }},
	{desc("disconnections_total", "Times that the agent lost its connection to the bus."), func(c *bus.AgentCounts) uint64 { return c.Disconnections }},
	{desc("engine_failures_total", "Times that an engine that was well went down or fell silent."), func(c *bus.AgentCounts) uint64 { return c.EngineFailures }},
}

// refusals are the notes that refuse a dispatch.
var refusals = []string{string(bus.NoteBusy), string(bus.NoteDraining), string(bus.NoteUnknownModel), string(bus.NoteNotReady)}

// partedCounters are those that are counted by class, all of which are shown from the
// start. What a class that this version does not know counted is shown as other.
var partedCounters = []struct {
	desc    *prometheus.Desc
	classes []string
	total   func(*bus.AgentCounts) uint64
	parts   func(*bus.AgentCounts) map[string]uint64
}{
	{
		desc("requests_failed_total", "Requests that failed at the engine.", "class"), bus.FailureClasses,
		func(c *bus.AgentCounts) uint64 { return c.Failed }, func(c *bus.AgentCounts) map[string]uint64 { return c.Failures },
	},
	{
		desc("requests_refused_total", "Dispatches refused.", "reason"), refusals,
		func(c *bus.AgentCounts) uint64 { return c.Refused }, func(c *bus.AgentCounts) map[string]uint64 { return c.Refusals },
	},
}

// latencies are the smoothed times of a record.
var latencies = []struct {
	mean, deviation *prometheus.Desc
	get             func(*bus.Latencies) *bus.Latency
}{
	{
		desc("ttft_smoothed_seconds", "Smoothed time to the first byte of a stream, at the engine."),
		desc("ttft_deviation_seconds", "Its smoothed mean deviation."), func(l *bus.Latencies) *bus.Latency { return l.TTFT },
	},
	{
		desc("itl_smoothed_seconds", "Smoothed time from token to token of a stream, at the engine."),
		desc("itl_deviation_seconds", "Its smoothed mean deviation."), func(l *bus.Latencies) *bus.Latency { return l.ITL },
	},
	{
		desc("e2e_smoothed_seconds", "Smoothed time from the call of the engine to the last byte."),
		desc("e2e_deviation_seconds", "Its smoothed mean deviation."), func(l *bus.Latencies) *bus.Latency { return l.E2E },
	},
}

func describeCounters(ch chan<- *prometheus.Desc) {
	for _, c := range counters {
		ch <- c.desc
	}
	for _, c := range partedCounters {
		ch <- c.desc
	}
	for _, l := range latencies {
		ch <- l.mean
		ch <- l.deviation
	}
}

func collectCounters(count func(*prometheus.Desc, uint64, ...string), c *bus.AgentCounts) {
	for _, x := range counters {
		count(x.desc, x.get(c))
	}
	for _, x := range partedCounters {
		left, parts := x.total(c), x.parts(c)
		for _, class := range x.classes {
			count(x.desc, parts[class], class)
			left -= min(left, parts[class])
		}
		count(x.desc, left, "other")
	}
}

func collectLatencies(gauge func(*prometheus.Desc, float64, ...string), all *bus.Latencies) {
	for _, x := range latencies {
		if l := x.get(all); l != nil {
			gauge(x.mean, l.MS/1e3)
			gauge(x.deviation, l.VarMS/1e3)
		}
	}
}
