package simulate

import (
	"context"
	"testing"
)

// measure runs strategies under a workload at the loads that the claims are about, and
// calls f with the results by strategy.
func measure(t *testing.T, name string, seed uint64, strategies []string, f func(load float64, by map[string]Result)) {
	t.Helper()
	s := Sweep{Config: small(), Strategies: strategies, Workloads: []string{name}, Loads: []float64{0.7, 0.9, 0.95}}
	s.Agents, s.Requests, s.Seed = 8, 16_000, seed
	err := s.Run(context.Background(), func(table Table) error {
		by := make(map[string]Result)
		for _, r := range table.Results {
			by[r.Strategy] = r
			t.Logf("%s, load %g, seed %d: %s: TTFT p95 %v, goodput %.4f, hit rate %.3f", name, table.Load, seed, r.Strategy, r.P95, r.Goodput, r.HitRate)
		}
		f(table.Load, by)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestPrefixAwareWins: where prompts share their beginnings, prefix-aware has the
// lowest p95 of the time to the first token, by a wide margin, and at least as many
// requests within the limits.
func TestPrefixAwareWins(t *testing.T) {
	others := []string{"least-loaded", "power-of-two", "session-affinity"}
	for _, name := range []string{"multi-turn", "shared-prompt"} {
		for _, seed := range []uint64{1, 2} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				measure(t, name, seed, append([]string{"prefix-aware"}, others...), func(load float64, by map[string]Result) {
					aware := by["prefix-aware"]
					for _, other := range others {
						o := by[other]
						if float64(aware.P95) >= 0.8*float64(o.P95) {
							t.Errorf("load %g: TTFT p95 %v, with %s %v", load, aware.P95, other, o.P95)
						}
						if aware.Goodput < o.Goodput {
							t.Errorf("load %g: goodput %.4f, with %s %.4f", load, aware.Goodput, other, o.Goodput)
						}
					}
				})
			})
		}
	}
}

// TestPrefixAwareCostsNothing: where prompts share nothing, prefix-aware is not worse
// than least-loaded by more than three percent.
func TestPrefixAwareCostsNothing(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			measure(t, "no-prefix", seed, []string{"least-loaded", "prefix-aware"}, func(load float64, by map[string]Result) {
				if aware, least := by["prefix-aware"].P95, by["least-loaded"].P95; float64(aware) > 1.03*float64(least) {
					t.Errorf("load %g: TTFT p95 %v, with least-loaded %v", load, aware, least)
				}
			})
		})
	}
}
