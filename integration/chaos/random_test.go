package chaos

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus/bustest"
)

// plan is one random run: what clients do, and what breaks when.
type plan struct {
	clients []client
	events  []event
	slots   int
}

type client struct {
	at     time.Duration
	leaves time.Duration // after which it closes its connection; 0: it stays
	stream bool
	via    int // gateway
}

type event struct {
	at   time.Duration
	what string
	who  int
	span time.Duration
}

func drawPlan(t *rapid.T) plan {
	ms := func(name string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Millisecond
	}
	p := plan{slots: rapid.IntRange(1, 6).Draw(t, "slots")}
	for range rapid.IntRange(5, 30).Draw(t, "clients") {
		c := client{at: ms("at", 0, 8000), stream: rapid.Bool().Draw(t, "stream"), via: rapid.IntRange(0, 1).Draw(t, "via")}
		if rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
			c.leaves = ms("after", 1, 3000)
		}
		p.clients = append(p.clients, c)
	}
	for range rapid.IntRange(0, 6).Draw(t, "events") {
		p.events = append(p.events, event{
			at: ms("when", 0, 9000), who: rapid.IntRange(0, 2).Draw(t, "who"), span: ms("span", 1, 5000),
			what: rapid.SampledFrom([]string{
				"cut agent", "cut gateway", "cut scheduler", "agent off", "gateway off", "scheduler off",
				"restart bus", "kill scheduler", "kill agent", "engine resets", "drain agent",
			}).Draw(t, "what"),
		})
	}
	return p
}

// TestRandom runs random kills, cancels, cuts and restarts and checks invariants
// 2, 3, 5, 6 and 8 at the end.
func TestRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan(rt)
		var broken []string
		bustest.Bubble(t, func(t *testing.T) { broken = runPlan(t, p) })
		if len(broken) > 0 {
			rt.Fatalf("%s\nplan: %+v", strings.Join(broken, "\n"), p)
		}
	})
}

const (
	scriptEvents = 25
	scriptPause  = 40 * time.Millisecond
)

func runPlan(t *testing.T, p plan) (broken []string) {
	f := newFleet(t)
	f.failf = func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	defer f.close()
	fault, want := script(scriptEvents, scriptPause)
	for i := range 3 {
		e := f.addEngine(engineConfig())
		if _, err := e.sim.Inject(fault); err != nil {
			t.Fatal(err)
		}
		f.addAgent(fmt.Sprintf("agent-%d", i), e, p.slots)
	}
	for range 3 {
		f.addScheduler()
	}
	f.addGateway().Client().UseScheduler(f.schedulers[1].Take)
	f.addGateway()
	time.Sleep(1500 * time.Millisecond)

	results := make([]result, len(p.clients))
	var wg sync.WaitGroup
	for i, c := range p.clients {
		wg.Go(func() {
			time.Sleep(c.at)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.leaves > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.leaves)
				defer cancel()
			}
			results[i] = f.gateways[c.via].ask(ctx, i, c.stream)
		})
	}
	for _, e := range p.events {
		wg.Go(func() {
			time.Sleep(e.at)
			f.happen(e)
		})
	}
	wg.Wait()

	f.settle()
	for i, r := range results {
		if why := f.judge(r, want); why != "" {
			f.failf("request %d (%+v): %s", i, p.clients[i], why)
		}
	}
	f.noReplay(results, p.clients)
	return broken
}

// happen makes one thing go wrong. It touches parts only in ways that a process
// can suffer.
func (f *fleet) happen(e event) {
	off := func(w *bustest.Wire) {
		w.Down()
		time.Sleep(e.span)
		w.Up()
	}
	switch e.what {
	case "cut agent":
		f.agents[e.who].wire.Cut()
	case "cut gateway":
		f.gateways[e.who%2].wire.Cut()
	case "cut scheduler":
		f.schedulers[e.who].wire.Cut()
	case "agent off":
		off(f.agents[e.who].wire)
	case "gateway off":
		off(f.gateways[e.who%2].wire)
	case "scheduler off":
		off(f.schedulers[e.who].wire)
	case "restart bus":
		f.bus.Stop()
		time.Sleep(e.span / 4)
		f.bus.Start()
	case "kill scheduler":
		f.schedulers[0].kill() // the other ones stay
	case "kill agent":
		f.agents[2].kill()
	case "engine resets":
		f.engines[e.who].listen.Cut()
	case "drain agent":
		f.agents[1].end()
	}
}

// judge says what is wrong with what a client saw, "" if nothing is.
func (f *fleet) judge(r result, want []byte) string {
	whole := r.err == nil && r.status == 200 && bytes.Equal(r.body, want)
	switch {
	case whole:
		return ""
	case r.err != nil:
		return "" // the client left, or its connection was broken off
	case r.status == 0:
		return "no answer at all"
	case r.status != 200:
		if !strings.Contains(string(r.body), `"error"`) {
			return fmt.Sprintf("status %d without an error object: %.200s", r.status, r.body)
		}
		return ""
	}
	i := bytes.Index(r.body, []byte(`data: {"error"`))
	if i < 0 {
		return fmt.Sprintf("invariant 6: %d of %d bytes and no error", len(r.body), len(want))
	}
	sent := bytes.TrimSuffix(r.body[:i], []byte("\n\n"))
	if !bytes.HasPrefix(want, sent) {
		return fmt.Sprintf("invariant 6: what came before the error is not what the engine sent: %.300s", r.body)
	}
	if strings.Contains(string(r.body), "[DONE]") && !bytes.Contains(sent, []byte("[DONE]")) {
		return "invariant 6: a broken stream says [DONE]"
	}
	return ""
}

// noReplay checks that nothing ran a request again after its first byte had reached
// the client (invariant 5). A scheduler that was cut off may start one that it
// does not know to be served; that is cancelled at once, and never told.
func (f *fleet) noReplay(results []result, clients []client) {
	first := make(map[string]time.Time)
	for i, r := range results {
		if r.status == 200 && !r.first.IsZero() {
			first[requestBody(i, clients[i].stream)] = r.first
		}
	}
	for _, e := range f.engines {
		for _, r := range e.sim.Record().Requests {
			if at, ok := first[string(r.Body)]; ok && r.ReceivedAt.After(at) && r.EndedAt.Sub(r.ReceivedAt) > time.Second {
				f.failf("invariant 5: a request ran again after its first byte at %v: %s\n%s", at, r.Body, f.history(string(r.Body)))
			}
		}
	}
}

// history tells what the engines saw of one request.
func (f *fleet) history(body string) string {
	var b strings.Builder
	for i, e := range f.engines {
		for _, r := range e.sim.Record().Requests {
			if string(r.Body) == body {
				fmt.Fprintf(&b, "engine %d: %s came %v, ended %v, %s\n", i, r.RequestID, r.ReceivedAt, r.EndedAt, r.Outcome)
			}
		}
	}
	return b.String()
}
