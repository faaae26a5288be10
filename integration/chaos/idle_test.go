package chaos

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestIdleStream: an engine that is silent within its answer is given up after the
// idle limit, with an explicit error, and its slot is free again.
func TestIdleStream(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f, _, g := newTrio(t, sim.Fault{Kind: sim.StallAfter, Tokens: 3}, 8)
		r := g.ask(t.Context(), 1, true)
		if !strings.Contains(string(r.body), "stream_idle") || strings.Contains(string(r.body), "[DONE]") {
			t.Errorf("invariant 6: %.300s", r.body)
		}
		if r.took < 5*time.Minute || r.took > 5*time.Minute+2*time.Second {
			t.Errorf("the stream ended after %v, the idle limit is 5m", r.took)
		}
		f.settle()
		f.close()
	})
}

// TestLongStream: a healthy stream is cut by no limit, however long it lasts. It
// runs without JetStream, as all tests of this package but one: traffic does not
// need it.
func TestLongStream(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		fault, want := script(200, 30*time.Second)
		f, _, g := newTrio(t, fault, 8)
		r := g.ask(t.Context(), 1, true)
		if !bytes.Equal(r.body, want) || r.took < 100*time.Minute {
			t.Errorf("got %d of %d bytes in %v: %v %.200q", len(r.body), len(want), r.took, r.err, r.body[max(0, len(r.body)-200):])
		}
		f.settle()
		f.close()
	})
}

// TestDeadline: a request without a first byte in its time ends with 504, wherever
// it is.
func TestDeadline(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f, _, g := newTrio(t, sim.Fault{Kind: sim.HangBeforeHeaders}, 8)
		r := g.ask(t.Context(), 1, true)
		if r.status != 504 || !strings.Contains(string(r.body), "deadline_exceeded") || r.took > 10*time.Minute+time.Second {
			t.Errorf("status %d after %v: %.200s", r.status, r.took, r.body)
		}
		f.settle()
		f.close()
	})
}

// TestFull: when every slot is taken, requests wait in turn; one that waits too
// long gets a 429 that says when to come back (acceptance 20).
func TestFull(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		fault, want := script(10, 5*time.Second)
		f, _, g := newTrio(t, fault, 1)
		results := make(chan result, 3)
		for i := range 3 {
			go func() { results <- g.ask(t.Context(), i, true) }()
			time.Sleep(100 * time.Millisecond)
		}
		statuses := make(map[int]int)
		for range 3 {
			r := <-results
			statuses[r.status]++
			switch {
			case r.status == 200 && !bytes.Equal(r.body, want):
				t.Errorf("request %d: %d of %d bytes", r.id, len(r.body), len(want))
			case r.status == 429 && (r.id != 2 || !strings.Contains(string(r.body), "queue_timeout")):
				t.Errorf("request %d: %.200s", r.id, r.body)
			}
		}
		if statuses[200] != 2 || statuses[429] != 1 {
			t.Errorf("statuses %v, want two answers and a 429", statuses)
		}
		f.settle()
		f.close()
	})
}
