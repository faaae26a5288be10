package agent

import (
	"testing"
	"time"
)

// What finished within the last minute counts, and cancels, 4xx and refusals do not.
func TestHistory(t *testing.T) {
	var h history
	if _, ok := h.successRate(at(0)); ok {
		t.Error("invariant 11: a rate of nothing")
	}
	for _, o := range []outcome{cancelled, clientError, tooMany} {
		h.add(o, at(1))
	}
	if _, ok := h.successRate(at(1)); ok || h.failures != 0 {
		t.Error("what says nothing about the engine counts")
	}
	for i, o := range []outcome{succeeded, lost, succeeded, succeeded, broken, unavailable} {
		h.add(o, at(float64(10*i)))
	}
	for now, want := range map[float64]float64{50: 0.5, 59.9: 0.5, 60: 0.4, 70: 0.5, 110: -1, 109.9: 0, 10_000: -1} {
		got, ok := h.successRate(at(now))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("after %v s: %v, want %v", now, got, want)
		}
	}
	if h.failures != 2 {
		t.Errorf("%d failures in a row", h.failures)
	}
	h.add(succeeded, at(200))
	if rate, _ := h.successRate(at(200)); rate != 1 || h.failures != 0 {
		t.Errorf("after a success: %v, %d failures in a row", rate, h.failures)
	}
}

// The smoothing follows its formula: half of the way down, an eighth of it up.
func TestSmoothed(t *testing.T) {
	var s smoothed
	if _, ok := s.get(); ok {
		t.Error("invariant 11: a time of nothing")
	}
	for _, c := range []struct {
		ms   int
		want float64
	}{{100, 100}, {50, 75}, {155, 85}, {0, 85}, {-3, 85}, {85, 85}, {5, 45}} {
		s.add(time.Duration(c.ms) * time.Millisecond)
		if got, ok := s.get(); !ok || got != c.want {
			t.Errorf("after %d ms: %v, want %v", c.ms, got, c.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.add(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
