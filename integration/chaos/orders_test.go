package chaos

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// order gives a command to an agent.
func (f *fleet) order(l *bus.Link, agent, verb string, arg map[string]any) bus.OrderAnswer {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var a bus.OrderAnswer
	if err := l.Command(ctx, agent, verb, arg, &a); err != nil {
		f.t.Fatal(err)
	}
	return a
}

// withJetStream gives the fleet a bus with a disk.
func (f *fleet) withJetStream(dir string) {
	f.bus.Stop()
	f.bus = bustest.NewBus(f.t, dir)
}

// TestDrainHurtsNobody: an agent that is told to drain finishes what it has while
// everything new goes elsewhere; it stays drained when it starts again, until it is told
// to resume.
func TestDrainHurtsNobody(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		f.withJetStream(dir)
		a, b := f.addEngine(engineConfig()), f.addEngine(engineConfig())
		first := f.addAgent("a", a, 8)
		f.addAgent("b", b, 8)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		operator := f.bus.NewWire().Link(t, "operator", f.log)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if r := g.ask(t.Context(), i, i%2 == 0); r.status != http.StatusOK || r.err != nil {
					t.Errorf("request %d ended with %d, %v", i, r.status, r.err)
				}
			})
		}
		time.Sleep(time.Second)
		said := f.order(operator, "a", "drain", map[string]any{"reason": "new driver", "by": "ann"})
		if said.Status != bus.StatusDraining || said.Warning != "" || said.Order == nil || said.Order.Reason != "new driver" || said.Order.By != "ann" {
			t.Errorf("the agent answers %+v", said)
		}
		if said.Active == 0 {
			t.Error("the load should keep the agent busy")
		}
		started := a.sim.Counts().Started
		wg.Wait()
		if n := a.sim.Counts().Started; n != started {
			t.Errorf("%d requests came to the engine of an agent that drains", n-started)
		}
		first.end()
		f.agents = f.agents[1:]
		again := f.addAgent("a", a, 8)
		time.Sleep(2 * time.Second)
		if r := again.Record(); r.Status != bus.StatusDraining || r.Order == nil || r.Order.Reason != "new driver" {
			t.Errorf("after a restart the agent says %s, %+v", r.Status, r.Order)
		}
		if said := f.order(operator, "a", "resume", nil); said.Status != bus.StatusReady || said.Order != nil {
			t.Errorf("the agent answers %+v", said)
		}
		time.Sleep(time.Second)
		if r := g.ask(t.Context(), 99, false); r.status != http.StatusOK {
			t.Errorf("a request ended with %d, %v", r.status, r.err)
		}
		if a.sim.Counts().Started != started+1 {
			t.Error("an agent that resumed gets nothing")
		}
		f.settle()
		operator.Close()
		f.close()
	})
}

// TestDrainTimeout: a drain with a time cuts what is left when it is over, once.
func TestDrainTimeout(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		fault, _ := script(100, time.Second)
		f, _, g := newTrio(t, fault, 4)
		operator := f.bus.NewWire().Link(t, "operator", f.log)
		var r result
		var wg sync.WaitGroup
		wg.Go(func() { r = g.ask(t.Context(), 1, true) })
		time.Sleep(3 * time.Second)
		said := f.order(operator, "a", "drain", map[string]any{"timeout_ms": 5000})
		if said.Warning == "" || !strings.Contains(said.Warning, "restart") {
			t.Errorf("without JetStream the agent warns %q", said.Warning)
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("the stream was cut after %v, want 5 s", took)
		}
		if !strings.Contains(string(r.body), `"code":"draining"`) || strings.Contains(string(r.body), "[DONE]") {
			t.Errorf("invariant 6: a stream that was cut ends with %q", r.body[max(len(r.body)-200, 0):])
		}
		f.order(operator, "a", "resume", nil)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		r = g.ask(ctx, 2, true)
		cancel()
		if r.took < 19*time.Second {
			t.Errorf("after it resumed a stream was cut after %v: %s", r.took, r.body)
		}
		f.settle()
		operator.Close()
		f.close()
	})
}

// TestOrderWithoutJetStream: an order that can't be kept holds, and is kept when
// JetStream is back.
func TestOrderWithoutJetStream(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		a := f.addAgent("a", e, 8)
		time.Sleep(2 * time.Second)
		operator := f.bus.NewWire().Link(t, "operator", f.log)
		if said := f.order(operator, "a", "cordon", nil); said.Status != bus.StatusCordoned || said.Warning == "" {
			t.Errorf("the agent answers %+v", said)
		}
		f.bus.Stop()
		f.bus.UseDisk(dir)
		f.bus.Start()
		time.Sleep(30 * time.Second)
		o, _, err := operator.Order(t.Context(), "a")
		if err != nil || !o.Cordon || a.Record().Status != bus.StatusCordoned {
			t.Errorf("the order that is kept is %+v, %v; the agent is %s", o, err, a.Record().Status)
		}
		// What an operator writes while the agent listens is obeyed, too.
		if _, _, err := operator.ChangeOrder(t.Context(), "a", func(o *bus.Order) {
			*o = bus.Order{Capacity: 3, At: time.Now()}
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if r := a.Record(); r.Status != bus.StatusReady || r.Capacity != 3 {
			t.Errorf("the agent is %s with %d slots", r.Status, r.Capacity)
		}
		operator.Close()
		f.close()
	})
}

// TestCommandArguments: an argument that can't be understood is refused by name, and
// changes nothing.
func TestCommandArguments(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		a := f.addAgent("a", e, 8)
		time.Sleep(2 * time.Second)
		operator := f.bus.NewWire().Link(t, "operator", f.log)
		cases := []struct {
			verb string
			arg  any
			want string
		}{
			{"drain", map[string]any{"timeout": 5}, "timeout"},
			{"drain", map[string]any{"timeout_ms": -1}, "timeout_ms"},
			{"drain", map[string]any{"timeout_ms": "soon"}, "timeout_ms"},
			{"drain", map[string]any{"reason": strings.Repeat("x", 300)}, "reason"},
			{"drain", []int{1}, "argument"},
			{"capacity", nil, "capacity"},
			{"capacity", map[string]any{"capacity": -1}, "capacity"},
			{"capacity", map[string]any{"capacity": 1 << 30}, "capacity"},
		}
		for _, c := range cases {
			var said bus.OrderAnswer
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			err := operator.Command(ctx, "a", c.verb, c.arg, &said)
			cancel()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %v: %v, want an error about %s", c.verb, c.arg, err, c.want)
			}
		}
		if r := a.Record(); r.Status != bus.StatusReady || r.Capacity != 8 || r.Order != nil {
			t.Errorf("the agent is %s with %d slots, %+v", r.Status, r.Capacity, r.Order)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := operator.Command(ctx, "nobody", "ping", nil, &bus.Record{}); err == nil || !strings.Contains(err.Error(), bus.ErrNoAgent.Error()) {
			t.Errorf("a command to nobody: %v", err)
		}
		operator.Close()
		f.close()
	})
}

// TestJobsAndCheck: an agent names what it has in flight, and tries its engine.
func TestJobsAndCheck(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 8)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		operator := f.bus.NewWire().Link(t, "operator", f.log)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var c bus.Check
		if err := operator.Command(ctx, "a", "check", nil, &c); err != nil || !c.OK || c.Model != "m" || c.Agent != "a" {
			t.Errorf("the check gives %+v, %v", c, err)
		}
		if _, err := e.sim.Inject(sim.Fault{Kind: sim.HangBeforeHeaders}); err != nil {
			t.Fatal(err)
		}
		left, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { g.ask(left, 1, true) })
		time.Sleep(3 * time.Second)
		var jobs bus.Jobs
		if err := operator.Command(ctx, "a", "jobs", nil, &jobs); err != nil || len(jobs.Jobs) != 1 {
			t.Fatalf("the jobs are %+v, %v", jobs, err)
		}
		j := jobs.Jobs[0]
		if j.Model != "m" || j.API != "chat" || !j.Stream || j.State != "waiting" || j.ElapsedMS < 2900 || j.ElapsedMS > 3100 || j.Request == "" || j.Agent != "a" {
			t.Errorf("the job is %+v", j)
		}
		if err := operator.Command(ctx, "a", "check", nil, &c); err != nil || c.OK || c.Error == "" {
			t.Errorf("the check of an engine that hangs gives %+v, %v", c, err)
		}
		leave()
		wg.Wait()
		f.settle()
		operator.Close()
		f.close()
	})
}

// TestOrdersMeet: what operators ordered while the agent could not read it and what they
// order meanwhile are both in force in the end.
func TestOrdersMeet(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		f.withJetStream(dir)
		operator := f.bus.NewWire().Link(t, "operator", f.log)
		if _, _, err := operator.ChangeOrder(t.Context(), "a", func(o *bus.Order) { o.Drain = true }); err != nil {
			t.Fatal(err)
		}
		f.bus.Stop()
		f.bus.UseDisk("")
		f.bus.Start()
		a := f.addAgent("a", f.addEngine(engineConfig()), 8)
		time.Sleep(5 * time.Second)
		if said := f.order(operator, "a", "capacity", map[string]any{"capacity": 3}); said.Warning == "" || said.Capacity != 3 {
			t.Errorf("the agent answers %+v", said)
		}
		f.bus.Stop()
		f.bus.UseDisk(dir)
		f.bus.Start()
		time.Sleep(30 * time.Second)
		o, _, err := operator.Order(t.Context(), "a")
		if r := a.Record(); err != nil || !o.Drain || o.Capacity != 3 || r.Status != bus.StatusDraining || r.Capacity != 3 {
			t.Errorf("the order is %+v, %v; the agent is %s with %d slots", o, err, r.Status, r.Capacity)
		}
		operator.Close()
		f.close()
	})
}
