package chaos

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

func engineConfig() sim.Config {
	cfg := sim.Default()
	cfg.Models = []string{"m"}
	return cfg
}

// TestRestart restarts NATS in the middle of 100 streams: every stream ends
// complete and byte-equal (invariant 6; design.md §8).
func TestRestart(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		fault, want := script(100, 100*time.Millisecond)
		if _, err := e.sim.Inject(fault); err != nil {
			t.Fatal(err)
		}
		f.addAgent("a", e, 64)
		f.addAgent("b", e, 64)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				r := g.ask(t.Context(), i, true)
				if r.err != nil || r.status != 200 || !bytes.Equal(r.body, want) {
					t.Errorf("invariant 6: stream %d: status %d, %d of %d bytes, %v: %.200q", i, r.status, len(r.body), len(want), r.err, r.body[max(0, len(r.body)-200):])
				}
			})
		}
		for range 3 {
			time.Sleep(2500 * time.Millisecond)
			f.bus.Stop()
			time.Sleep(700 * time.Millisecond)
			f.bus.Start()
		}
		wg.Wait()
		f.settle()
		f.close()
	})
}
