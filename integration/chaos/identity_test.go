package chaos

import (
	"errors"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// ended reports whether a process ended because another has its id.
func ended(p *agentProcess) bool {
	select {
	case <-p.done:
		return errors.Is(p.err, agent.ErrHeld)
	default:
		return false
	}
}

// TestOneID: of the processes that want one agent id exactly one serves, whoever comes
// first and however close they come.
func TestOneID(t *testing.T) {
	cases := map[string]time.Duration{"late": 5 * time.Second, "close": 100 * time.Millisecond, "at once": 0}
	for name, apart := range cases {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				f := newFleet(t)
				e := f.addEngine(engineConfig())
				f.addAgent("a", e, 4)
				time.Sleep(apart)
				f.addAgent("a", e, 4)
				time.Sleep(apart)
				f.addAgent("a", e, 4)
				f.addScheduler()
				g := f.addGateway()
				time.Sleep(2 * time.Second)
				serving := 0
				for i, a := range f.agents {
					if ended(a) {
						a.link.Close()
						continue
					}
					serving++
					if apart > 0 && i > 0 {
						t.Errorf("number %d serves, and not the first", i+1)
					}
				}
				if serving != 1 {
					t.Errorf("%d processes serve one id", serving)
				}
				if r := g.ask(t.Context(), 1, true); r.status != 200 || r.err != nil {
					t.Errorf("a request ended with %d, %v", r.status, r.err)
				}
				f.settle()
				f.close()
			})
		})
	}
}

// TestIDTakenOver: an agent that is cut off from the bus gives its id up when it comes
// back and another serves under it. Its streams end whole, and it takes nothing back
// that belongs to the other.
func TestIDTakenOver(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		f.bus.Stop()
		f.bus = bustest.NewBus(t, dir)
		e := f.addEngine(engineConfig())
		old := f.addAgent("a", e, 4)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		old.wire.Down()
		time.Sleep(10 * time.Second)
		next := f.addAgent("a", e, 4)
		time.Sleep(2 * time.Second)
		old.wire.Up()
		time.Sleep(20 * time.Second)
		if !ended(old) {
			t.Error("two processes serve one id")
		}
		if ended(next) {
			t.Error("the process that took the id over gave it up")
		}
		var r bus.Record
		found, err := g.link.GetJSON(t.Context(), bus.BucketAgents, bus.RecordKey("a"), &r)
		if err != nil || !found || r.Epoch != next.Record().Epoch {
			t.Errorf("the record is of %q (found %v, %v), want %q", r.Epoch, found, err, next.Record().Epoch)
		}
		if r := g.ask(t.Context(), 1, true); r.status != 200 || r.err != nil {
			t.Errorf("a request ended with %d, %v", r.status, r.err)
		}
		f.settle()
		f.close()
	})
}

// TestIDAfterDeath: the id of a process that was killed is free at once.
func TestIDAfterDeath(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 4).kill()
		next := f.addAgent("a", e, 4)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		if ended(next) {
			t.Error("a dead process holds its id")
		}
		if r := g.ask(t.Context(), 1, false); r.status != 200 || r.err != nil {
			t.Errorf("a request ended with %d, %v", r.status, r.err)
		}
		f.settle()
		f.close()
	})
}
