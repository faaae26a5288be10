package policy

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func up(id string, active, capacity int) Agent {
	return Agent{ID: id, Hash: mix(uint64(len(id)) + uint64(id[len(id)-1])), Healthy: true, Active: active, Capacity: capacity, Signals: Unknown(), Trust: 1}
}

func serving(agents ...Agent) []*Serving {
	var all []*Serving
	for i := range agents {
		all = append(all, &Serving{Agent: &agents[i]})
	}
	return all
}

func by(names ...string) *Step {
	s := &Step{Name: "routing_policy"}
	for _, n := range names {
		s.Strategy.Terms = append(s.Strategy.Terms, Term{Name: n, Weight: 1})
	}
	return s
}

// TestDecide: the filters in their order, and least-loaded (acceptance 14–20).
func TestDecide(t *testing.T) {
	sick, failed, other, open := up("a", 0, 4), up("f", 0, 4), up("o", 0, 4), up("b", 0, 4)
	sick.Healthy, other.Facts.Region, open.Open = false, "us", true
	embeds := up("e", 0, 4)
	embeds.APIs = 2
	hot := up("h", 0, 4)
	hot.Signals[SRTT] = 900
	eu := by("least-loaded")
	eu.Match.Region = "eu"
	gated := by("least-loaded")
	gated.Gates = []Gate{{Signal: SRTT, Op: GT, Value: 500}}
	none := by("least-loaded")
	cases := map[string]struct {
		step   *Step
		agents []Agent
		want   string
		why    Verdict
	}{
		"lower ratio, not lower count (acceptance 14)":            {none, []Agent{up("a", 2, 4), up("b", 2, 8)}, "b", Chosen},
		"equal ratios: the lowest id (acceptance 15)":             {none, []Agent{up("a", 2, 4), up("b", 1, 2), up("c", 4, 8)}, "a", Chosen},
		"idle ones of different size are equal":                   {none, []Agent{up("a", 0, 1), up("b", 0, 100)}, "a", Chosen},
		"full ones are skipped":                                   {none, []Agent{up("a", 4, 4), up("b", 7, 8)}, "b", Chosen},
		"none":                                                    {none, nil, "", NoModel},
		"only sick ones":                                          {none, []Agent{sick}, "", NoHealthy},
		"an engine without the API is passed over":                {none, []Agent{embeds, up("z", 3, 4)}, "z", Chosen},
		"only engines without the API":                            {none, []Agent{embeds}, "", NoAPI},
		"engines without the API and sick ones":                   {none, []Agent{embeds, sick}, "", NoHealthy},
		"only failed ones":                                        {none, []Agent{failed, sick}, "", AllFailed},
		"only room is missing (acceptance 20)":                    {none, []Agent{sick, failed, up("g", 4, 4)}, "", NoCapacity},
		"no slots at all":                                         {none, []Agent{up("a", 0, 0)}, "", NoHealthy},
		"match (acceptance 16)":                                   {eu, []Agent{other, sick}, "", NoMatch},
		"a violated gate excludes (acceptance 18)":                {gated, []Agent{hot, up("z", 3, 4)}, "z", Chosen},
		"a missing signal skips its gate (acceptance 18)":         {gated, []Agent{up("a", 0, 4)}, "a", Chosen},
		"only gated ones":                                         {gated, []Agent{hot, sick}, "", AllGated},
		"the default ignores history and metrics (acceptance 17)": {none, []Agent{hot, up("z", 1, 4)}, "h", Chosen},
		"an open breaker excludes":                                {none, []Agent{open, up("z", 3, 4)}, "z", Chosen},
		"when all breakers are open, none counts":                 {none, []Agent{open, sick}, "b", Chosen},
	}
	for name, c := range cases {
		var p Pool
		i, why := p.Decide(c.step, &Request{API: 1, Failed: map[string]bool{"f": true}}, serving(c.agents...))
		got := ""
		if i >= 0 {
			got = c.agents[i].ID
		}
		if got != c.want || why != c.why {
			t.Errorf("%s: got %q, %s, want %q, %s", name, got, why, c.want, c.why)
		}
	}
}

// TestProbe: a gate on history lets one request pass after a rest (acceptance 34).
func TestProbe(t *testing.T) {
	a := up("a", 0, 4)
	a.Signals[SuccessRate], a.Signals[ConsecutiveFailures] = 0, 9
	step := by("least-loaded")
	step.Gates = []Gate{{Signal: SuccessRate, Op: LT, Value: 0.9}, {Signal: ConsecutiveFailures, Op: GTE, Value: 3}}
	var p Pool
	if _, why := p.Decide(step, &Request{}, serving(a)); why != AllGated {
		t.Errorf("without a probe: %s", why)
	}
	a.Probe = true
	if _, why := p.Decide(step, &Request{}, serving(a)); why != Chosen {
		t.Errorf("with a probe: %s", why)
	}
}

// TestDecideBest: whatever the strategy, the chosen agent passed every filter, and
// with least-loaded no other has a lower ratio, nor an equal one and a lower id.
func TestDecideBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var agents []Agent
		failed := make(map[string]bool)
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			a := up(fmt.Sprintf("%02d", i), rapid.IntRange(0, 9).Draw(t, "active"), rapid.IntRange(0, 9).Draw(t, "capacity"))
			a.Healthy = rapid.Bool().Draw(t, "healthy")
			a.Tokens = rapid.Int64Range(0, 1e6).Draw(t, "tokens")
			if rapid.Bool().Draw(t, "signal") {
				a.Signals[WaitingRequests] = rapid.Float64Range(0, 100).Draw(t, "waiting")
			}
			failed[a.ID] = rapid.Bool().Draw(t, "failed")
			agents = append(agents, a)
		}
		all := serving(agents...)
		for _, s := range all {
			s.Matched, s.Turn = rapid.Float64Range(0, 1).Draw(t, "matched"), rapid.Uint64Range(0, 50).Draw(t, "turn")
		}
		usable := func(a Agent) bool { return a.Healthy && !failed[a.ID] && a.Active < a.Capacity }
		anyone := false
		for _, a := range agents {
			anyone = anyone || usable(a)
		}
		req := &Request{Failed: failed, Session: rapid.Uint64().Draw(t, "session"), Random: rapid.Uint64().Draw(t, "random")}
		var p Pool
		for _, name := range Strategies() {
			best, why := p.Decide(by(name), req, all)
			if (best >= 0) != (why == Chosen) || (best >= 0) != anyone || best >= 0 && !usable(agents[best]) {
				t.Fatalf("%s: chose %d, %s of %+v", name, best, why, agents)
			}
			for _, i := range p.Ready() {
				if math.IsNaN(p.Scores[i]) {
					t.Fatalf("%s: no score for %+v", name, agents[i])
				}
			}
			if name != "least-loaded" || best < 0 {
				continue
			}
			for i, a := range agents {
				b := agents[best]
				if mine, its := a.Active*b.Capacity, b.Active*a.Capacity; usable(a) && (mine < its || mine == its && i < best) {
					t.Fatalf("chose %+v before %+v", b, a)
				}
			}
		}
		if best, _ := p.Decide(by("prefix-aware", "lowest-queue", "least-tokens"), req, all); (best >= 0) != anyone {
			t.Fatalf("a combination chose %d", best)
		}
	})
}

// TestDecideAllocates: a decision allocates nothing, however large the fleet is.
func TestDecideAllocates(t *testing.T) {
	var agents []Agent
	for i := range 1000 {
		agents = append(agents, up(fmt.Sprintf("%04d", i), i%64, 64))
	}
	all := serving(agents...)
	req := &Request{Session: 7, Random: 99}
	var p Pool
	for _, name := range Strategies() {
		step := by(name)
		p.Decide(step, req, all)
		if n := testing.AllocsPerRun(20, func() { p.Decide(step, req, all) }); n != 0 {
			t.Errorf("%s: %v allocations a decision", name, n)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		var agents []Agent
		for i := range n {
			a := up(fmt.Sprintf("%05d", i), i%64, 64)
			for s := range a.Signals {
				a.Signals[s] = 0.1
			}
			agents = append(agents, a)
		}
		all := serving(agents...)
		for i, s := range all {
			s.Matched = float64(i%7) / 7
		}
		for _, name := range Strategies() {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				step := by(name)
				step.Match.Tags = nil
				step.Gates = []Gate{{Signal: KVCacheUtilization, Op: GT, Value: 0.95}, {Signal: SRTT, Op: GT, Value: 500}, {Signal: SuccessRate, Op: LT, Value: 0.05}}
				var p Pool
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					p.Decide(step, &Request{Session: uint64(i), Random: mix(uint64(i))}, all)
				}
			})
		}
	}
}
