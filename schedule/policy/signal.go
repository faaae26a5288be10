package policy

import "math"

// Signal is one measurement of an agent that a gate may look at.
type Signal uint8

// The signals. Rates and utilisations are fractions from 0 to 1; SRTT is in
// milliseconds, the latencies of the engine in seconds, temperature in °C.
const (
	CapacityUtilization Signal = iota // active / capacity, live
	SuccessRate                       // of finished requests within the window
	SRTT                              // smoothed time from dispatch to first byte
	ConsecutiveFailures
	KVCacheUtilization
	RunningRequests
	WaitingRequests
	AvgTTFTSeconds
	P90TTFTSeconds
	AvgITLSeconds
	P90ITLSeconds
	PrefixHitRate  // cached / prompt tokens within the window
	PreemptionRate // preemptions a second within the window
	GPUTemperatureC
	GPUUtilPercent
	GPUVRAMUsedPercent
	MemoryUsedPercent
	CPUUsagePercent
	NumSignals
)

var signalNames = [NumSignals]string{
	"capacity_utilization", "success_rate", "srtt", "consecutive_failures", "kv_cache_utilization", "running_requests",
	"waiting_requests", "avg_ttft_seconds", "p90_ttft_seconds", "avg_itl_seconds", "p90_itl_seconds", "prefix_hit_rate",
	"preemption_rate", "gpu_temperature_c", "gpu_util_percent", "gpu_vram_used_percent", "memory_used_percent", "cpu_usage_percent",
}

// String is the name of the signal in a policy document and in an agent's record.
func (s Signal) String() string { return signalNames[s] }

// SignalOf finds a signal by its name.
func SignalOf(name string) (Signal, bool) {
	for i, n := range signalNames {
		if n == name {
			return Signal(i), true
		}
	}
	return 0, false
}

// Signals are the measurements of one agent; what is unknown is NaN (invariant 11).
type Signals [NumSignals]float64

// Unknown are the signals of an agent that has said nothing.
func Unknown() Signals {
	var s Signals
	for i := range s {
		s[i] = math.NaN()
	}
	return s
}

// Read takes the measurements of an agent's record; names that are no signals, and
// numbers that are none, are ignored.
func (s *Signals) Read(values map[string]float64) {
	*s = Unknown()
	for name, v := range values {
		if i, ok := SignalOf(name); ok && !math.IsInf(v, 0) {
			s[i] = v
		}
	}
}
