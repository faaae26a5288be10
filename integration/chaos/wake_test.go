package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// answers makes an engine answer at once after a time.
func answers(t *testing.T, e *engine, takes time.Duration) {
	t.Helper()
	if _, err := e.sim.Inject(sim.Fault{
		Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "application/json"},
		Pieces: []sim.Piece{{DelayMS: takes.Milliseconds(), Text: "{}"}},
	}); err != nil {
		t.Fatal(err)
	}
}

// TestFreedSlotWakes: of two calls at an agent with one slot, one waits, and the slot
// that the other frees wakes it at once, whenever that happens (acceptance 22).
func TestFreedSlotWakes(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		e := f.addEngine(engineConfig())
		answers(t, e, time.Millisecond)
		f.addAgent("a", e, 1)
		s := f.addScheduler()
		g := f.addGateway()
		g.Client().UseScheduler(s.Take)
		time.Sleep(2 * time.Second)
		const pairs = 3000
		for i := range pairs {
			began := time.Now()
			var both sync.WaitGroup
			for k := range 2 {
				both.Go(func() {
					if err := call(t.Context(), g.Client(), 2*i+k, nil); err != nil {
						t.Errorf("pair %d: %v", i, err)
					}
				})
			}
			both.Wait()
			// The scheduler's clock would find a forgotten one after 100 ms.
			if took := time.Since(began); took > 60*time.Millisecond {
				t.Fatalf("pair %d took %v: a waiter was not woken", i, took)
			}
		}
		if n := s.Counters().Queued; n < pairs/2 {
			t.Errorf("only %d of %d pairs had one that waited", n, pairs)
		}
		f.settle()
	})
}

// TestFullModel: a model whose agents are full, with a long queue, never delays another
// model (acceptance 23).
func TestFullModel(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		slow := f.addEngine(engineConfig())
		answers(t, slow, time.Minute)
		cfg := engineConfig()
		cfg.Models = []string{"other"}
		fast := f.addEngine(cfg)
		answers(t, fast, time.Millisecond)
		f.addAgent("a", slow, 1)
		f.addAgent("b", fast, 1)
		s := f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range 100 {
			waiting.Go(func() { _ = call(ctx, g.Client(), i, nil) })
		}
		time.Sleep(time.Second)
		if n := s.Waiting(); n != 99 {
			t.Errorf("%d requests wait, want 99", n)
		}
		for i := range 50 {
			began := time.Now()
			err := call(t.Context(), g.Client(), 1000+i, func(r *bus.Request) {
				r.Body = fmt.Appendf(nil, `{"model":"other","messages":[{"role":"user","content":"request-%d-"}]}`, 1000+i)
			})
			if took := time.Since(began); err != nil || took > 50*time.Millisecond {
				t.Errorf("request %d for the other model: %v after %v", i, err, took)
			}
		}
		cancel()
		waiting.Wait()
		f.settle()
	})
}
