package chaos

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// inFlight waits until an engine has n requests, and fails after limit.
func (f *fleet) inFlight(e *engine, n int, limit time.Duration) time.Duration {
	f.t.Helper()
	began := time.Now()
	for int(e.sim.Counts().InFlight) != n {
		if time.Since(began) > limit {
			f.t.Errorf("engine has %d requests after %v, want %d", e.sim.Counts().InFlight, limit, n)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// phases are what an engine can be doing when its caller dies.
var phases = map[string]struct {
	stream bool
	fault  *sim.Fault
}{
	"prefill":             {true, &sim.Fault{Kind: sim.DelayFirstToken, DelayMS: 60_000}},
	"prefill, not stream": {false, &sim.Fault{Kind: sim.DelayFirstToken, DelayMS: 60_000}},
	"no headers":          {true, &sim.Fault{Kind: sim.HangBeforeHeaders}},
	"decode":              {true, &sim.Fault{Kind: sim.Slow, Factor: 1}},
	"decode, not stream":  {false, &sim.Fault{Kind: sim.Slow, Factor: 100}},
	"stalled":             {true, &sim.Fault{Kind: sim.StallAfter, Tokens: 3}},
}

// callerDies lets four callers wait in each phase, makes them go away, and checks
// that within a second the engine works for none of them (invariant 8).
func callerDies(t *testing.T, die func(g *gatewayProcess, leave func())) {
	for name, c := range phases {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				f, e, g := newTrio(t, *c.fault, 8)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() { g.ask(ctx, i, c.stream) })
				}
				f.inFlight(e, 4, time.Second)
				time.Sleep(700 * time.Millisecond)
				die(g, cancel)
				if d := f.inFlight(e, 0, 5*time.Second); d > time.Second {
					t.Errorf("invariant 8: cancelled after %v", d)
				}
				wg.Wait()
				f.settle()
				f.close()
			})
		})
	}
}

// TestGatewayKilled: a gateway dies.
func TestGatewayKilled(t *testing.T) {
	callerDies(t, func(g *gatewayProcess, _ func()) { g.kill() })
}

// TestClientLeaves: clients close their connections.
func TestClientLeaves(t *testing.T) {
	callerDies(t, func(_ *gatewayProcess, leave func()) { leave() })
}

// TestAgentKilled: streams of a dead agent end with an explicit error within 3 s,
// requests without a byte yet run elsewhere, and new ones go elsewhere at once
// (invariants 4, 5, 6).
func TestAgentKilled(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		ea, eb := f.addEngine(engineConfig()), f.addEngine(engineConfig())
		fault, want := script(100, 100*time.Millisecond)
		for _, e := range []*engine{ea, eb} {
			if _, err := e.sim.Inject(fault); err != nil {
				t.Fatal(err)
			}
		}
		a := f.addAgent("a", ea, 8)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		var died time.Time
		for i := range 4 {
			wg.Go(func() {
				r := g.ask(t.Context(), i, true)
				if !strings.Contains(string(r.body), "agent_lost") || strings.Contains(string(r.body), "[DONE]") {
					t.Errorf("invariant 6: the broken stream %d looks finished: %.200s", i, r.body)
				}
				if d := time.Since(died); d > 3*time.Second {
					t.Errorf("stream %d ended %v after its agent died", i, d)
				}
			})
		}
		time.Sleep(time.Second)
		f.addAgent("b", eb, 8)
		time.Sleep(time.Second)
		died = time.Now()
		a.kill()
		for i := range 4 {
			wg.Go(func() {
				r := g.ask(t.Context(), 10+i, true)
				if r.err != nil || r.status != 200 || !bytes.Equal(r.body, want) {
					t.Errorf("request %d after the death: %d %v %.200s", i, r.status, r.err, r.body)
				}
			})
		}
		wg.Wait()
		f.agents = f.agents[1:]
		ea.stop()
		f.engines = f.engines[1:]
		f.settle()
		f.close()
	})
}

// TestAgentCutOff: an agent whose network is gone, without a word, delays no new
// request by more than 2 s, and works again by itself when it is back.
func TestAgentCutOff(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		a := f.addAgent("a", f.addEngine(engineConfig()), 8)
		f.addAgent("b", f.addEngine(engineConfig()), 8)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		a.wire.Down()
		for i := range 20 {
			r := g.ask(t.Context(), i, false)
			if r.status != 200 || r.took > 4*time.Second {
				t.Errorf("request %d: %d after %v: %.200s %v", i, r.status, r.took, r.body, r.err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		a.wire.Up()
		time.Sleep(3 * time.Second)
		before := a.engine.sim.Counts().Finished
		g.ask(t.Context(), 100, false)
		if a.engine.sim.Counts().Finished != before+1 {
			t.Error("the agent that came back, with the lowest id, got no work")
		}
		f.settle()
		f.close()
	})
}

// TestSchedulerKilled: of two schedulers one dies under load. Requests in flight
// are untouched, queued ones are served, nothing runs twice.
func TestSchedulerKilled(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 4)
		s := f.addScheduler()
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		const n = 40
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				r := g.ask(t.Context(), i, i%2 == 0)
				if r.status != 200 || r.err != nil {
					t.Errorf("request %d: %d %v %.200s", i, r.status, r.err, r.body)
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		s.kill()
		wg.Wait()
		f.once(n)
		f.schedulers = f.schedulers[1:]
		f.settle()
		f.close()
	})
}

// once checks that each of n requests ran to its end exactly once, and that no
// engine had more than its agent's capacity (invariant 2).
func (f *fleet) once(n int) {
	f.t.Helper()
	finished := make(map[string]int)
	for _, e := range f.engines {
		for _, r := range e.sim.Record().Requests {
			if r.Outcome == sim.OutcomeFinished {
				body := string(r.Body)
				i := strings.Index(body, "request-")
				finished[body[i:i+strings.IndexByte(body[i+8:], '-')+8]]++
			}
		}
	}
	for i := range n {
		if got := finished[fmt.Sprintf("request-%d", i)]; got != 1 {
			f.t.Errorf("request %d ran to its end %d times", i, got)
		}
	}
	for _, a := range f.agents {
		if got := a.engine.sim.Counts().MaxRunning; int(got) > a.Record().Capacity {
			f.t.Errorf("invariant 2: engine of %s had %d requests, capacity %d", a.name, got, a.Record().Capacity)
		}
	}
}

// TestRollingSchedulers stops schedulers gracefully under load: what waits is
// handed over.
func TestRollingSchedulers(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 2)
		s := f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		const n = 30
		for i := range n {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond)
				if r := g.ask(t.Context(), i, i%2 == 0); r.status != 200 || r.err != nil {
					t.Errorf("request %d: %d %v %.200s", i, r.status, r.err, r.body)
				}
			})
		}
		for range 3 {
			time.Sleep(300 * time.Millisecond)
			next := f.addScheduler()
			time.Sleep(500 * time.Millisecond)
			s.end()
			s = next
		}
		wg.Wait()
		f.once(n)
		f.schedulers = f.schedulers[len(f.schedulers)-1:]
		f.settle()
		f.close()
	})
}
