package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// An agent compares what schedulers expect of its engine's prefix cache with what the
// engine reports.
func TestPredictedHits(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) {
		o.sim.PrefixCache = true
		o.agent.MetricsInterval = 50 * time.Millisecond
	})
	s.apply("routing_policy: {strategy: prefix-aware}\n")
	long := strings.Repeat("All work and no play makes a dull text. ", 100)
	for i := range 10 {
		if a := s.post("/v1/chat/completions", fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"system","content":%q},{"role":"user","content":"%d"}]}`, model, long, i)); a.status != 200 {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
	}
	var signals map[string]float64
	eventually(t, 10*time.Second, "both shares are said", func() bool {
		signals = s.agents[0].Record().Signals
		_, ok := signals["cached_hit_rate"]
		return ok && signals["predicted_hit_rate"] > 0.7
	})
	if got := signals["cached_hit_rate"]; got < 0.7 || got > 1 {
		t.Errorf("the engine has kept %.2f of %.2f", got, signals["predicted_hit_rate"])
	}
}
