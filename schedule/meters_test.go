package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestLabelsBounded: however many models and policies there are, the number of label
// sets has a bound (invariant 10), and nothing goes uncounted.
func TestLabelsBounded(t *testing.T) {
	m, now := newMeters(), time.Now()
	const n = 3 * maxModels
	for i := range n {
		m.dispatched(&ticket{model: fmt.Sprint("model-", i)}, fmt.Sprint("policy-", i), now)
	}
	if len(m.models) != maxModels+1 || len(m.decisions) != maxLabels+1 {
		t.Errorf("%d models and %d decisions have series", len(m.models), len(m.decisions))
	}
	if got := m.decisions[other]; got != n-maxLabels {
		t.Errorf("%d decisions are other, want %d", got, n-maxLabels)
	}
}

// TestDispatchedAllocates: nothing, but for the first one of its kind; and a request
// waits once, however often it is dispatched.
func TestDispatchedAllocates(t *testing.T) {
	m, now := newMeters(), time.Now()
	tk := &ticket{model: "m", waited: time.Second}
	m.dispatched(tk, "a/b/c", now)
	if n := testing.AllocsPerRun(100, func() { m.dispatched(tk, "a/b/c", now) }); n != 0 {
		t.Errorf("%v allocations for each dispatch", n)
	}
}

// TestModelsGoAway: a model that left and is not asked for has no series.
func TestModelsGoAway(t *testing.T) {
	m, now := newMeters(), time.Now()
	there := map[string]bool{"stays": true}
	for _, name := range []string{"stays", "left", "asked"} {
		m.model(name, now)
	}
	for range 3 {
		now = now.Add(keepSeries / 2)
		m.model("asked", now)
		m.purge(func(name string) bool { return there[name] }, now)
	}
	if len(m.models) != 2 || m.models["left"] != nil {
		t.Errorf("%d models have series, want 2", len(m.models))
	}
}

// TestManyAgents: agents beyond the bound are one series, which shows the worst.
func TestManyAgents(t *testing.T) {
	now := time.Now()
	s := &Scheduler{fleet: newFleet(), meters: newMeters()}
	for i := range maxAgents + 10 {
		s.fleet.say(beat(fmt.Sprintf("agent-%05d", i), "e", 1, "m"), now.Add(-time.Second))
	}
	last := s.fleet.agents[fmt.Sprintf("agent-%05d", maxAgents+3)]
	for range breakerFailures {
		last.breaker.failed("", now)
	}
	var out sink
	s.collectAgents(&out, now)
	if n := len(out.list); n != 3*(maxAgents+1) {
		t.Errorf("%d series, want %d", n, 3*(maxAgents+1))
	}
	for want, d := range map[float64]any{1: descBreaker, 0: descUsable} {
		found := false
		for _, metric := range out.list {
			if metric.Desc() != d {
				continue
			}
			if agent, v := labelled(t, metric); agent == other {
				found = true
				if v != want {
					t.Errorf("%v is %v, want %v", d, v, want)
				}
			}
		}
		if !found {
			t.Errorf("%v is missing", d)
		}
	}
}

// labelled is the first label and the value of a gauge.
func labelled(t *testing.T, m prometheus.Metric) (string, float64) {
	t.Helper()
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Label[0].GetValue(), out.Gauge.GetValue()
}
