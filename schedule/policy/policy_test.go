package policy

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func up(id string, active, capacity int) Agent {
	return Agent{ID: id, Fresh: true, Healthy: true, Active: active, Capacity: capacity}
}

func TestPick(t *testing.T) {
	down, stale, failed := up("a", 0, 4), up("a", 0, 4), up("a", 0, 4)
	down.Healthy, stale.Fresh, failed.Failed = false, false, true
	cases := map[string]struct {
		agents []Agent
		want   string
		why    Verdict
	}{
		"lower ratio, not lower count (acceptance 14)": {[]Agent{up("a", 2, 4), up("b", 2, 8)}, "b", Chosen},
		"equal ratios: the lowest id (acceptance 15)":  {[]Agent{up("a", 2, 4), up("b", 1, 2), up("c", 4, 8)}, "a", Chosen},
		"idle ones of different size are equal":        {[]Agent{up("a", 0, 1), up("b", 0, 100)}, "a", Chosen},
		"full ones are skipped":                        {[]Agent{up("a", 4, 4), up("b", 7, 8)}, "b", Chosen},
		"none":                                         {nil, "", NoModel},
		"only sick ones":                               {[]Agent{down, stale}, "", NoHealthy},
		"only failed ones":                             {[]Agent{failed, down}, "", AllFailed},
		"only room is missing (acceptance 20)":         {[]Agent{down, failed, up("b", 4, 4)}, "", NoCapacity},
		"no slots at all":                              {[]Agent{up("a", 0, 0)}, "", NoHealthy},
	}
	for name, c := range cases {
		i, why := Pick(c.agents, LeastLoaded)
		got := ""
		if i >= 0 {
			got = c.agents[i].ID
		}
		if got != c.want || why != c.why {
			t.Errorf("%s: got %q, %s, want %q, %s", name, got, why, c.want, c.why)
		}
	}
}

// The chosen agent can be used, has room, and no other has a lower ratio, nor an
// equal one and a lower id.
func TestPickBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var agents []Agent
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			agents = append(agents, Agent{
				ID: fmt.Sprintf("%02d", i), Fresh: rapid.Bool().Draw(t, "fresh"), Healthy: rapid.Bool().Draw(t, "healthy"),
				Failed: rapid.Bool().Draw(t, "failed"), Active: rapid.IntRange(0, 9).Draw(t, "active"), Capacity: rapid.IntRange(0, 9).Draw(t, "capacity"),
			})
		}
		usable := func(a Agent) bool { return a.Fresh && a.Healthy && !a.Failed && a.Active < a.Capacity }
		best, why := Pick(agents, LeastLoaded)
		if (best >= 0) != (why == Chosen) || best >= 0 && !usable(agents[best]) {
			t.Fatalf("chose %d, %s of %+v", best, why, agents)
		}
		for i, a := range agents {
			if !usable(a) {
				continue
			}
			if best < 0 {
				t.Fatalf("%+v can be used, and %s", a, why)
			}
			b := agents[best]
			mine, its := a.Active*b.Capacity, b.Active*a.Capacity
			if mine < its || mine == its && i < best {
				t.Fatalf("chose %+v before %+v", b, a)
			}
		}
	})
}

func BenchmarkPick1000(b *testing.B) {
	var agents []Agent
	for i := range 1000 {
		agents = append(agents, up(fmt.Sprint(i), i%64, 64))
	}
	b.ReportAllocs()
	for b.Loop() {
		Pick(agents, LeastLoaded)
	}
}
