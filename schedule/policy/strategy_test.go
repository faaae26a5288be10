package policy

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func fleetOf(n, capacity int) []Agent {
	var agents []Agent
	for i := range n {
		a := up(fmt.Sprintf("agent-%d", i), 0, capacity)
		a.Hash = mix(uint64(i + 1))
		agents = append(agents, a)
	}
	return agents
}

// TestRoundRobinEven: the counts stay even across models and changes of membership.
func TestRoundRobinEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "agents")
		all := serving(fleetOf(n, 1000)...)
		var p Pool
		var turn uint64
		counts := make(map[string]int)
		choose := func(agents []*Serving) {
			i, _ := p.Decide(by("round-robin"), &Request{}, agents)
			turn++
			agents[i].Turn = turn
			counts[agents[i].ID]++
		}
		out := rapid.IntRange(0, n-1).Draw(t, "out")
		for range 7 * n {
			choose(all)
		}
		if n > 1 {
			some := append(append([]*Serving{}, all[:out]...), all[out+1:]...)
			for range 5 * len(some) {
				choose(some)
			}
			counts[all[out].ID] += 5
		}
		// The one that came back is behind, and gets one turn, not a burst.
		before := counts[all[out].ID]
		for range 3 * n {
			choose(all)
		}
		if got := counts[all[out].ID] - before; got < 3 || got > 4 {
			t.Fatalf("after it came back, one agent got %d of %d", got, 3*n)
		}
		for id, c := range counts {
			if c < 7+3 || n > 1 && (c < 7+5+3-1 || c > 7+5+3+1) {
				t.Fatalf("%s got %d: %v", id, c, counts)
			}
		}
	})
}

// TestPowerOfTwo: it takes the less loaded of two that are drawn evenly.
func TestPowerOfTwo(t *testing.T) {
	agents := fleetOf(10, 100)
	for i := range agents {
		agents[i].Active = 10 * i
	}
	all := serving(agents...)
	var p Pool
	counts := make([]float64, 10)
	const draws = 50_000
	for i := range draws {
		k, _ := p.Decide(by("power-of-two"), &Request{Random: mix(uint64(i + 1))}, all)
		counts[k]++
	}
	// The k-th best of n is chosen when it is drawn and nobody better is:
	// 2(n-1-k) / n(n-1).
	for k, c := range counts {
		want := 2 * float64(9-k) / 90
		if got := c / draws; math.Abs(got-want) > 0.01 {
			t.Errorf("agent %d was chosen in %.3f of all draws, want %.3f", k, got, want)
		}
	}
}

// TestAffinity: a session stays where it is, moves only with its agent, sessions are
// spread by capacity, and a home far above its share is passed over.
func TestAffinity(t *testing.T) {
	agents := fleetOf(8, 100)
	agents[0].Capacity = 200
	all := serving(agents...)
	var p Pool
	step := by("session-affinity")
	home := func(session uint64, agents []*Serving) string {
		i, _ := p.Decide(step, &Request{Session: session}, agents)
		return agents[i].ID
	}
	counts := make(map[string]int)
	moved := 0
	const sessions = 9000
	for i := range uint64(sessions) {
		s := mix(i + 1)
		before := home(s, all)
		counts[before]++
		after := home(s, all[:7])
		if before != all[7].ID && before != after {
			t.Fatalf("session %x moved from %s to %s although its agent is there", s, before, after)
		}
		if before != after {
			moved++
		}
	}
	if want := counts[all[7].ID]; moved != want {
		t.Errorf("%d sessions moved, want %d", moved, want)
	}
	for _, a := range all {
		want := float64(sessions) * float64(a.Capacity) / 900
		if got := float64(counts[a.ID]); math.Abs(got-want) > want/8 {
			t.Errorf("%s has %v sessions of capacity %d, want about %v", a.ID, got, a.Capacity, want)
		}
	}
	s := mix(42)
	at, _ := p.Decide(step, &Request{Session: s}, all)
	all[at].Active = 50 // the others are idle
	if next, _ := p.Decide(step, &Request{Session: s}, all); next == at {
		t.Error("the load of the home is not bounded")
	}
	step.Strategy.Options.Sticky = StickyHard
	if next, _ := p.Decide(step, &Request{Session: s}, all); next != at {
		t.Error("a hard session left its home")
	}
	all[at].Active = all[at].Capacity
	if next, why := p.Decide(step, &Request{Session: s}, all); next != -1 || why != NoCapacity {
		t.Errorf("a hard session does not wait for its home: %d, %s", next, why)
	}
}

// TestPrefixAware: the arithmetic of the score.
func TestPrefixAware(t *testing.T) {
	cases := map[string]struct {
		active  []int
		matched []float64
		want    int
	}{
		"the longest match among equals":         {[]int{5, 5, 5}, []float64{0.2, 0.9, 0.5}, 1},
		"cold: by load":                          {[]int{5, 4, 6}, []float64{0, 0, 0}, 1},
		"a weak match is not worth a busy agent": {[]int{10, 0, 0}, []float64{0.3, 0, 0}, 1},
		"a strong match is worth a little load":  {[]int{6, 4, 5}, []float64{0.9, 0, 0}, 0},
		"an overloaded one is not":               {[]int{40, 4, 4}, []float64{1, 0, 0}, 1},
		"room wins always":                       {[]int{100, 99, 99}, []float64{1, 0, 0.1}, 2},
		"one hot agent, affinity of the others":  {[]int{60, 5, 5}, []float64{0.2, 0, 0.8}, 2},
	}
	for name, c := range cases {
		agents := fleetOf(len(c.active), 100)
		for i := range agents {
			agents[i].Active = c.active[i]
		}
		all := serving(agents...)
		for i := range all {
			all[i].Matched = c.matched[i]
		}
		var p Pool
		if got, why := p.Decide(by("prefix-aware"), &Request{}, all); got != c.want {
			t.Errorf("%s: chose %d, %s, want %d; scores %v", name, got, why, c.want, p.Scores)
		}
	}
	// Promises that did not come true count less.
	all := serving(fleetOf(2, 100)...)
	all[0].Matched, all[1].Matched, all[0].Trust = 0.9, 0.5, 0.3
	var p Pool
	if got, _ := p.Decide(by("prefix-aware"), &Request{}, all); got != 1 {
		t.Errorf("trusts an agent that does not deserve it; scores %v", p.Scores)
	}
}

// TestSignalsUnknown: who does not report counts as the mean (invariant 11).
func TestSignalsUnknown(t *testing.T) {
	for name, signal := range map[string]Signal{"lowest-latency": SRTT, "lowest-queue": WaitingRequests, "lowest-kv-cache": KVCacheUtilization} {
		agents := fleetOf(3, 100)
		agents[0].Signals[signal], agents[2].Signals[signal] = 0.9, 0.1
		var p Pool
		if got, _ := p.Decide(by(name), &Request{}, serving(agents...)); got != 2 {
			t.Errorf("%s: chose %d; scores %v", name, got, p.Scores)
		}
		if !(p.Scores[0] < p.Scores[1] && p.Scores[1] < p.Scores[2]) {
			t.Errorf("%s: scores %v", name, p.Scores)
		}
	}
}

// TestCombination: weights mean the same for every strategy.
func TestCombination(t *testing.T) {
	agents := fleetOf(2, 100)
	agents[0].Active, agents[1].Active = 90, 10
	agents[0].Signals[WaitingRequests], agents[1].Signals[WaitingRequests] = 0, 1000
	all := serving(agents...)
	for want, weights := range map[int][2]float64{0: {1, 3}, 1: {3, 1}} {
		step := by("least-loaded", "lowest-queue")
		step.Strategy.Terms[0].Weight, step.Strategy.Terms[1].Weight = weights[0], weights[1]
		var p Pool
		if got, _ := p.Decide(step, &Request{}, all); got != want {
			t.Errorf("weights %v: chose %d, scores %v", weights, got, p.Scores)
		}
	}
}
