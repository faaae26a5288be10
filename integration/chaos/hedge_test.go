package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus/bustest"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// usePolicy puts one document in force on a scheduler.
func usePolicy(t *testing.T, s *schedulerProcess, text string) {
	t.Helper()
	d, err := policy.Parse("test", []byte(text))
	if err == nil {
		err = s.ApplyPolicies([]*policy.Document{d}, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// slowly makes an engine wait before the first byte of the requests whose body has a
// text, and answer all requests with the script.
func slowly(t *testing.T, e *engine, answer sim.Fault, contains string, wait time.Duration) {
	t.Helper()
	slow := answer
	slow.Contains, slow.Pieces = contains, slices.Clone(answer.Pieces)
	slow.Pieces[0].DelayMS += wait.Milliseconds()
	for _, f := range []sim.Fault{slow, answer} {
		if _, err := e.sim.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFirstByteTimeout: an attempt at a stream without a first byte in the time of
// its step is given up, and another agent serves the request; a request without a
// stream is left alone, and so is a stream that has begun.
func TestFirstByteTimeout(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		answer, want := script(5, 3*time.Second)
		answer.Pieces[0].DelayMS = 10
		slow, fast := f.addEngine(engineConfig()), f.addEngine(engineConfig())
		slowly(t, slow, answer, "request-", 30*time.Second)
		slowly(t, fast, answer, "nothing", 0)
		f.addAgent("a", slow, 4) // the lowest id: asked first
		f.addAgent("b", fast, 4)
		s := f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		usePolicy(t, s, "routing_policy:\n  strategy: least-loaded\n  first_byte_timeout: 2s\n")

		r := g.ask(t.Context(), 1, true)
		if r.status != 200 || !bytes.Equal(r.body, want) {
			t.Fatalf("status %d: %.200s", r.status, r.body)
		}
		if took := r.first.Sub(time.Now().Add(-r.took)); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("the first byte came after %v, the limit is 2s", took)
		}
		endedSoon(t, slow, 3*time.Second)
		r = g.ask(t.Context(), 2, false)
		if r.status != 200 || r.took < 30*time.Second {
			t.Errorf("without a stream: status %d after %v", r.status, r.took)
		}
		f.settle()
	})
}

const hedging = "routing_policy:\n  strategy: least-loaded\n  hedge: true\n"

// warm makes a scheduler learn how long a first byte takes, and save up hedges.
func warm(t *testing.T, g *gatewayProcess, requests int) {
	t.Helper()
	for i := range requests {
		if r := g.ask(t.Context(), 1000+i, true); r.status != 200 {
			t.Fatalf("request %d: status %d: %.200s", i, r.status, r.body)
		}
	}
}

// TestHedge: a stream whose first byte takes much longer than those of others is tried
// at a second agent; the client gets the answer that begins first, once and whole, the
// other engine is freed, and nothing is counted twice.
func TestHedge(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		answer, want := script(3, 20*time.Millisecond)
		slow, fast := f.addEngine(engineConfig()), f.addEngine(engineConfig())
		slowly(t, slow, answer, "request-7-", 20*time.Second)
		slowly(t, fast, answer, "nothing", 0)
		a, b := f.addAgent("a", slow, 4), f.addAgent("b", fast, 4)
		s := f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		usePolicy(t, s, hedging)
		warm(t, g, 100) // two hedges
		r := g.ask(t.Context(), 7, true)
		if r.status != 200 || !bytes.Equal(r.body, want) || r.took > 2*time.Second {
			t.Errorf("status %d after %v: %.200s", r.status, r.took, r.body)
		}
		f.settle()
		if c := s.Counters(); c.Hedges != 1 || c.HedgesWon != 1 || c.Retries != 0 {
			t.Errorf("%d hedges, %d of them won, %d retries; want 1, 1, 0", c.Hedges, c.HedgesWon, c.Retries)
		}
		endedSoon(t, slow, 2*time.Second)
		ca, cb := a.Record().Counters, b.Record().Counters
		if ca.Succeeded+cb.Succeeded != 101 || ca.Cancelled != 1 || ca.Failed+cb.Failed != 0 {
			t.Errorf("the agents count %+v and %+v, want 101 successes and one cancelled", ca, cb)
		}
	})
}

// endedSoon checks that an engine was freed of all its requests within a time
// (invariant 8).
func endedSoon(t *testing.T, e *engine, limit time.Duration) {
	t.Helper()
	all := e.sim.Record().Requests
	if len(all) == 0 {
		t.Error("the engine got no request")
	}
	for _, r := range all {
		if d := r.EndedAt.Sub(r.ReceivedAt); d < 0 || d > limit {
			t.Errorf("invariant 8: the engine worked on %s for %v", r.Body, d)
		}
	}
}

// TestHedgeLimits: no hedge without the policy's word, none for an answer that is no
// stream, none while the fleet is busy, and never more than one in fifty requests.
func TestHedgeLimits(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		stream bool
		busy   int
		slow   int
		warm   int
		most   uint64
		least  uint64
	}{
		"not asked for": {policy: "routing_policy: {strategy: least-loaded}", stream: true, slow: 1, warm: 100},
		"no stream":     {policy: hedging, slow: 1, warm: 100},
		"busy":          {policy: hedging, stream: true, busy: 4, slow: 1, warm: 100},
		"share":         {policy: hedging, stream: true, slow: 30, warm: 170, most: 4, least: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				f := newFleet(t)
				defer f.close()
				answer, _ := script(1, 5*time.Millisecond)
				for i := range 2 {
					e := f.addEngine(engineConfig())
					slowly(t, e, answer, "request-7", 10*time.Second)
					f.addAgent(fmt.Sprint("agent-", i), e, 4)
				}
				s := f.addScheduler()
				g := f.addGateway()
				time.Sleep(2 * time.Second)
				usePolicy(t, s, c.policy)
				warm(t, g, c.warm)
				done := make(chan result)
				for i := range c.busy {
					go func() { done <- g.ask(t.Context(), 700+i, true) }()
				}
				for range c.slow {
					g.ask(t.Context(), 7, c.stream)
				}
				for range c.busy {
					<-done
				}
				f.settle()
				if n := s.Counters().Hedges; n > c.most || n < c.least {
					t.Errorf("%d hedges, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}

// TestHedgeRandom lets agents die, be cut off, fail and be slow while hedges run:
// each client gets one whole answer or an error, nothing runs on behind it, and all
// counts go back to zero (invariants 3, 5, 6 and 8).
func TestHedgeRandom(t *testing.T) {
	runs := 12
	if testing.Short() {
		runs = 3
	}
	hedges, won := uint64(0), uint64(0)
	for seed := range runs {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				h, w := hedgeRun(t, uint64(seed))
				hedges, won = hedges+h, won+w
			})
		})
	}
	if hedges < uint64(runs) || won == 0 || won == hedges {
		t.Errorf("%d hedges, of which %d won: the test does not show what it should", hedges, won)
	}
}

func hedgeRun(t *testing.T, seed uint64) (hedges, won uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	f := newFleet(t)
	defer f.close()
	answer, want := script(6, 15*time.Millisecond)
	for i := range 3 {
		e := f.addEngine(engineConfig())
		for n := range 8 {
			wait := time.Duration(random.IntN(1500)) * time.Millisecond
			slow := answer
			slow.Contains, slow.Pieces = fmt.Sprintf("request-%d-", n), slices.Clone(answer.Pieces)
			slow.Pieces[0].DelayMS += wait.Milliseconds()
			if _, err := e.sim.Inject(slow); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := e.sim.Inject(answer); err != nil {
			t.Fatal(err)
		}
		f.addAgent(fmt.Sprint("agent-", i), e, 8)
	}
	s := f.addScheduler()
	g := f.addGateway()
	time.Sleep(2 * time.Second)
	usePolicy(t, s, hedging)
	warm(t, g, 300)
	results := make(chan result, 8)
	for n := range 8 {
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
		go func() { results <- g.ask(t.Context(), n, true) }()
	}
	what := []string{"cut agent", "agent off", "engine resets", "kill agent", "nothing", "cut scheduler", "cut gateway"}
	for range random.IntN(3) {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		e := event{what: what[random.IntN(len(what))], who: random.IntN(3), span: time.Duration(random.IntN(2000)) * time.Millisecond}
		if e.what == "cut scheduler" || e.what == "cut gateway" {
			e.who = 0
		}
		f.happen(e)
	}
	var all []result
	for range 8 {
		r := <-results
		all = append(all, r)
		if why := f.judge(r, want); why != "" {
			t.Errorf("request %d: %s", r.id, why)
		}
		if r.status == 200 && strings.Count(string(r.body), "[DONE]") > 1 {
			t.Errorf("request %d: answered twice: %s", r.id, r.body)
		}
	}
	f.settle()
	slices.SortFunc(all, func(a, b result) int { return a.id - b.id })
	streams := make([]client, 8)
	for i := range streams {
		streams[i].stream = true
	}
	f.noReplay(all, streams)
	c := s.Counters()
	return c.Hedges, c.HedgesWon
}
