package policy

import (
	"fmt"
	"testing"
)

// TestVerdictOrder: of each set of agents that can't be chosen, the verdict is of
// the filter that emptied the pool last, whatever the order (acceptance 16 and 20).
func TestVerdictOrder(t *testing.T) {
	sick, failed, full := up("x", 0, 4), up("x", 0, 4), up("x", 4, 4)
	sick.Healthy, failed.Failed = false, true
	both := full
	both.Failed = true
	kinds := []struct {
		agent Agent
		why   Verdict
	}{{sick, NoHealthy}, {failed, AllFailed}, {both, AllFailed}, {full, NoCapacity}}
	rank := map[Verdict]int{NoModel: 0, NoHealthy: 1, AllFailed: 2, NoCapacity: 3}
	for _, a := range kinds {
		for _, b := range kinds {
			for _, c := range kinds {
				want := a.why
				for _, k := range []Verdict{b.why, c.why} {
					if rank[k] > rank[want] {
						want = k
					}
				}
				if i, got := Pick([]Agent{a.agent, b.agent, c.agent}, LeastLoaded); i != -1 || got != want {
					t.Errorf("%s, %s, %s: got %d, %s, want %s", a.why, b.why, c.why, i, got, want)
				}
				// One that can be used is chosen whatever stands around it.
				if i, got := Pick([]Agent{a.agent, b.agent, up("y", 3, 4), c.agent}, LeastLoaded); i != 2 || got != Chosen {
					t.Errorf("%s, %s, usable, %s: got %d, %s", a.why, b.why, c.why, i, got)
				}
			}
		}
	}
}

// TestPickAllocates: a decision allocates nothing, however large the fleet is.
func TestPickAllocates(t *testing.T) {
	var agents []Agent
	for i := range 1000 {
		agents = append(agents, up(fmt.Sprintf("%04d", i), 63-i%64, 64))
	}
	if n := testing.AllocsPerRun(100, func() {
		if i, why := Pick(agents, LeastLoaded); i != 63 || why != Chosen {
			t.Fatalf("chose %d, %s", i, why)
		}
	}); n != 0 {
		t.Errorf("%v allocations a decision", n)
	}
}
