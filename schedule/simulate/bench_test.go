package simulate

import (
	"fmt"
	"math"
	"testing"

	"github.com/tokenbus/tokenbus/schedule/policy"
)

// BenchmarkDecision is one decision of prefix-aware behind gates, over a fleet of
// which a third holds the prompt of 60 blocks.
func BenchmarkDecision(b *testing.B) {
	for _, agents := range []int{1000, 10_000} {
		b.Run(fmt.Sprint("agents=", agents), func(b *testing.B) {
			cfg := small()
			cfg.Agents, cfg.Strategy = agents, "prefix-aware"
			s := &run{cfg: cfg}
			s.build()
			o := s.schedulers[0]
			o.step.Gates = []policy.Gate{
				{Signal: policy.KVCacheUtilization, Value: 0.9}, {Signal: policy.SRTT, Value: 5000},
				{Signal: policy.ConsecutiveFailures, Op: policy.GTE, Value: 3}, {Signal: policy.CapacityUtilization, Value: 0.95},
			}
			r := &request{conversation: &conversation{session: 1}, prefix: indexBlocks([]span{{1, 60 * engineBlock}})}
			if len(r.prefix) != 60 {
				b.Fatalf("%d blocks", len(r.prefix))
			}
			for i, v := range o.views {
				v.active = i * 7919 % 60
				v.agent.Signals[policy.KVCacheUtilization] = math.Mod(float64(i)*0.37, 1)
				v.agent.Signals[policy.SRTT] = float64(i * 31 % 1000)
				if i%3 == 0 {
					o.index.Insert(i, r.prefix)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if o.choose(r) == nil {
					b.Fatal("nobody is chosen")
				}
			}
		})
	}
}

// BenchmarkRun is a whole run of a large fleet; what it costs a request is its
// measure.
func BenchmarkRun(b *testing.B) {
	cfg := small()
	cfg.Agents, cfg.Requests, cfg.Workload, cfg.Strategy = 1000, 20_000, "multi-turn", "prefix-aware"
	w, err := workload(cfg.Workload)
	if err != nil {
		b.Fatal(err)
	}
	traffic := generate(w, cfg.Seed, cfg.Requests)
	rate := 0.7 * float64(cfg.Agents) * cfg.Model.Capacity(traffic.chars, traffic.answer)
	b.ReportAllocs()
	for b.Loop() {
		simulate(cfg, traffic, rate)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*cfg.Requests), "ns/request")
}
