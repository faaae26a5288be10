package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tokenbus/tokenbus/bus"
)

func serving(models ...string) func(string) bool {
	return func(m string) bool {
		for _, s := range models {
			if s == m {
				return true
			}
		}
		return false
	}
}

// TestLabelsBounded: a name that a client made up is no label, and there is a hard
// bound on those that are (invariant 10).
func TestLabelsBounded(t *testing.T) {
	m := newMeters(serving("known"))
	m.of("known", bus.Chat, false).add(200, bus.Usage{})
	m.of("aliased", bus.Chat, true).add(200, bus.Usage{})
	for i := range 3 * maxSeries {
		m.of(fmt.Sprint("made-up-", i), bus.Chat, false).add(404, bus.Usage{})
	}
	all := *m.series.Load()
	if len(all) != 3 || all[pair{other, bus.Chat}].requests() != 3*maxSeries {
		t.Fatalf("%d series", len(all))
	}
	for i := range 3 * maxSeries {
		m.of(fmt.Sprint("real-", i), bus.Chat, true).add(200, bus.Usage{})
	}
	if n := len(*m.series.Load()); n != maxSeries {
		t.Errorf("%d series, the bound is %d", n, maxSeries)
	}
	s := m.of("known", bus.Chat, false)
	for code := -1; code < 1000; code++ {
		s.add(code, bus.Usage{})
	}
	if n := len(s.codes); n > maxCodes+1 {
		t.Errorf("%d codes, the bound is %d and other", n, maxCodes)
	}
	if n := s.requests(); n != 1002 {
		t.Errorf("%d requests are counted, want 1002", n)
	}
}

// TestSeriesGoAway: a model that left is forgotten, unless requests still come.
func TestSeriesGoAway(t *testing.T) {
	models := map[string]bool{"stays": true, "leaves": true, "asked": true}
	m := newMeters(func(s string) bool { return models[s] })
	for name := range models {
		m.of(name, bus.Chat, false).add(200, bus.Usage{})
	}
	now := time.Now()
	look := func(after time.Duration) (n int) {
		m.of("asked", bus.Chat, true).add(200, bus.Usage{})
		now = now.Add(after)
		return len(m.purge(now))
	}
	if n := look(time.Hour); n != 3 {
		t.Fatalf("%d series of three models that are there", n)
	}
	delete(models, "leaves")
	delete(models, "asked")
	if n := look(time.Hour); n != 3 {
		t.Errorf("%d series at the first look without the agents", n)
	}
	if n := look(keepSeries - time.Second); n != 3 {
		t.Errorf("%d series before the time is over", n)
	}
	if n := look(2 * time.Second); n != 2 {
		t.Errorf("%d series after it, want 2", n)
	}
	models["leaves"] = true
	if m.of("leaves", bus.Chat, false).requests() != 0 {
		t.Error("a model that came back has its old counts")
	}
}

// finished is a stream that took a second.
func finished() (observe func(), m *meters) {
	m = newMeters(serving("m"))
	now := time.Now()
	began := now.Add(-time.Second)
	x := &exchange{
		model: "m", route: bus.Route{API: bus.Chat}, began: began, first: now.Add(-time.Second / 2), last: now,
		status: 200, written: true, sse: true, agent: true,
	}
	end := &bus.End{
		Usage: bus.Usage{Prompt: 10, Completion: 100, Cached: 5}, HasUsage: true,
		Timing: bus.Timing{Accept: time.Millisecond, First: 400 * time.Millisecond, Total: 900 * time.Millisecond},
	}
	return func() { m.observe(x, end, began, now) }, m
}

// TestObserveAllocates: nothing, but for the first request of its kind.
func TestObserveAllocates(t *testing.T) {
	observe, _ := finished()
	observe()
	if n := testing.AllocsPerRun(100, observe); n != 0 {
		t.Errorf("%v allocations for each request", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	observe, _ := finished()
	b.ReportAllocs()
	for b.Loop() {
		observe()
	}
}

// TestObserve: what a stream is measured as.
func TestObserve(t *testing.T) {
	observe, m := finished()
	observe()
	all := *m.series.Load()
	s := all[pair{"m", bus.Chat}]
	if s == nil {
		t.Fatal("no series")
	}
	for name, c := range map[string]struct {
		h    prometheus.Histogram
		want float64
	}{
		"duration": {s.duration, 1}, "first token": {s.firstToken, 0.5}, "per token": {s.perToken, 0.5 / 99},
		"input": {s.input, 10}, "output": {s.output, 100}, "overhead": {m.overhead, 0.1},
	} {
		n, sum := total(t, c.h)
		if n != 1 || sum < c.want-1e-9 || sum > c.want+1e-9 {
			t.Errorf("%s: %d observations, sum %v, want %v", name, n, sum, c.want)
		}
	}
	if s.codes[200] != 1 || s.tokens != (bus.Usage{Prompt: 10, Completion: 100, Cached: 5}) {
		t.Errorf("codes %v, tokens %v", s.codes, s.tokens)
	}
}

// total is what a histogram has seen.
func total(t *testing.T, h prometheus.Histogram) (n uint64, sum float64) {
	t.Helper()
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.Histogram.GetSampleCount(), m.Histogram.GetSampleSum()
}
