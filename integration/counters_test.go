package integration

import (
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
)

// Each way to fail counts in its class, and what went well makes the latencies.
func TestCounters(t *testing.T) {
	t.Parallel()
	s := start(t, freshSockets, func(o *options) {
		o.schedule.MaxTries = 1
		o.agent.IdleTimeout, o.gateway.Timeout = 400*time.Millisecond, time.Second
	})
	a := s.agents[0]
	before := a.Record()
	want := make(map[string]uint64)
	for _, x := range []struct {
		class  string
		fault  sim.Fault
		stream bool
	}{
		{class: "busy", fault: sim.Fault{Kind: sim.FailStatus, Status: 429}},
		{class: "busy", fault: sim.Fault{Kind: sim.FailStatus, Status: 503}},
		{class: "engine_error", fault: sim.Fault{Kind: sim.FailStatus, Status: 500}},
		{class: "lost", fault: sim.Fault{Kind: sim.Refuse}},
		{class: "broken", fault: sim.Fault{Kind: sim.ResetAfter, Tokens: 3}, stream: true},
		{class: "broken", fault: sim.Fault{Kind: sim.CloseAfter, Tokens: 3}, stream: true},
		{class: "idle", fault: sim.Fault{Kind: sim.StallAfter, Tokens: 3}, stream: true},
		{class: "deadline", fault: sim.Fault{Kind: sim.HangBeforeHeaders}},
	} {
		x.fault.Name, x.fault.Count = x.class, 1
		s.inject(x.fault)
		s.post("/v1/chat/completions", chat(x.stream, `,"max_tokens":8`), "X-Sim-Script", x.class)
		want[x.class]++
		eventually(t, 5*time.Second, "no request is left", func() bool { return a.Active() == 0 })
		if got := a.Record().Counters.Failures; !maps.Equal(got, want) {
			t.Fatalf("after %s (%s): failures %v, want %v", x.fault.Kind, x.class, got, want)
		}
		eventually(t, 5*time.Second, "the engine is well", func() bool { return a.Record().EngineHealth == bus.HealthOK })
	}
	if r := a.Record(); r.Latencies.TTFT != nil || *r.Latencies.E2E != *before.Latencies.E2E {
		t.Errorf("nothing went well, and the latencies went from %+v to %+v", before.Latencies, r.Latencies)
	}
	if got := s.post("/v1/chat/completions", chat(true, `,"max_tokens":8`)); got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	s.rest()
	r := a.Record()
	if l := r.Latencies; l == nil || l.TTFT == nil || l.ITL == nil || l.E2E == nil || l.TTFT.MS <= 0 || l.E2E.MS == before.Latencies.E2E.MS {
		t.Errorf("latencies %+v", l)
	}
	total := uint64(0)
	for _, n := range want {
		total += n
	}
	if c := r.Counters; c.Failed != total || c.Succeeded != before.Counters.Succeeded+1 {
		t.Errorf("counters %+v, want %d failures and one success more than %+v", c, total, before.Counters)
	}
	got := scrape(t, s.registry())
	for _, class := range bus.FailureClasses {
		if v, ok := got["tokenbus_agent_requests_failed_total{agent=a,class="+class+"}"]; !ok || v != float64(want[class]) {
			t.Errorf("%s: the metric is %v (there: %v), want %d", class, v, ok, want[class])
		}
	}
}
