package agent

import (
	"cmp"
	"maps"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// The names of what an agent measures, in its record and in policies. Seconds,
// fractions from 0 to 1, counts; the time to the first byte is in milliseconds.
const (
	signalCacheUse    = "kv_cache_utilization"
	signalRunning     = "running_requests"
	signalWaiting     = "waiting_requests"
	signalAvgTTFT     = "avg_ttft_seconds"
	signalP90TTFT     = "p90_ttft_seconds"
	signalAvgITL      = "avg_itl_seconds"
	signalP90ITL      = "p90_itl_seconds"
	signalHitRate     = "prefix_hit_rate"
	signalPreemptions = "preemption_rate"

	signalSuccess  = "success_rate"
	signalFailures = "consecutive_failures"
	signalSRTT     = "srtt"

	// Shares of the prompts that schedulers expected in the engine's prefix cache, and
	// that were there. No gate looks at them; they tell how far to trust the former.
	signalPredicted = "predicted_hit_rate"
	signalCached    = "cached_hit_rate"
)

// signalsFor is how long a measurement of the engine counts (invariant 11: a stale
// one is a missing one).
const signalsFor = 5 * time.Second

// measured is what the last good look at an engine gave. The map is not changed.
type measured struct {
	at     time.Time // zero if there was none
	values map[string]float64
	asleep bool
	// Facts, which do not become stale.
	cacheTokens int64
	blockSize   int
	caching     flag
}

// describe writes into a record what the agent knows of its engine and of itself.
func (a *Agent) describe(r *bus.Record, m measured, now time.Time) {
	r.CacheTokens, r.CacheBlockSize = cmp.Or(m.cacheTokens, r.CacheTokens), cmp.Or(m.blockSize, r.CacheBlockSize)
	if m.caching != unknown {
		caching := m.caching == on
		r.PrefixCaching = &caching
	}
	r.Signals = a.slots.signals(now)
	if ms, ok := a.srtt.get(); ok {
		r.Signals[signalSRTT] = ms
	}
	if age := now.Sub(m.at); !m.at.IsZero() && age <= signalsFor {
		r.SignalAgeMS = max(age.Milliseconds(), 0)
		maps.Copy(r.Signals, m.values)
	}
	a.promises.describe(r.Signals, now)
}
