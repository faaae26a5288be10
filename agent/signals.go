package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"
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

	signalGPUUse         = "gpu_util_percent"
	signalVRAMUse        = "gpu_vram_used_percent"
	signalGPUTemperature = "gpu_temperature_c"
	signalCPUUse         = "cpu_usage_percent"
	signalMemoryUse      = "memory_used_percent"

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
	if a.cfg.Hardware == nil {
		return
	}
	if r.Hardware = a.cfg.Hardware(); r.Hardware != nil {
		hardwareSignals(r.Signals, r.Hardware)
		r.GPUModel = cmp.Or(r.GPUModel, gpuModel(r.Hardware.GPUs))
	}
}

// hardwareSignals adds what gates look at: fractions and °C, of GPUs those of the one
// that has most.
func hardwareSignals(signals map[string]float64, h *bus.Hardware) {
	most := func(name string, v float64) {
		if old, ok := signals[name]; !ok || v > old {
			signals[name] = v
		}
	}
	for _, g := range h.GPUs {
		if g.UtilPercent != nil {
			most(signalGPUUse, *g.UtilPercent/100)
		}
		if g.VRAMUsedBytes != nil && g.VRAMTotalBytes != nil && *g.VRAMTotalBytes > 0 {
			most(signalVRAMUse, min(float64(*g.VRAMUsedBytes)/float64(*g.VRAMTotalBytes), 1))
		}
		if g.TemperatureC != nil {
			most(signalGPUTemperature, *g.TemperatureC)
		}
	}
	if h.CPUUsagePercent != nil {
		most(signalCPUUse, *h.CPUUsagePercent/100)
	}
	if h.MemoryUsedPercent != nil {
		most(signalMemoryUse, *h.MemoryUsedPercent/100)
	}
}

// gpuModel is the model of the GPUs, or the models, in order, with commas between.
func gpuModel(gpus []bus.GPU) string {
	var names []string
	for _, g := range gpus {
		if g.Name != "" {
			names = append(names, g.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}
