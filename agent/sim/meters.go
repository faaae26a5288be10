package sim

import (
	"slices"
	"sort"
	"time"
)

// meters are the engine's counters and histograms, guarded by Server.mu.
type meters struct {
	promptTokens, generatedTokens int64
	cacheQueries, cacheHits       int64 // tokens
	success                       map[string]int64

	ttft, itl, e2e, queue histogram
	prompt, generation    histogram
}

// finishReasons are the values of vLLM's finished_reason label.
var finishReasons = []string{"stop", "length", "abort", "error"}

func newMeters(maxModelLen int) *meters {
	latency := []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	lengths := oneTwoFive(maxModelLen)
	return &meters{
		success: map[string]int64{},
		ttft: newHistogram(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
			1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
		itl: newHistogram(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75,
			1, 2.5, 5, 7.5, 10, 20, 40, 80),
		e2e:        newHistogram(latency...),
		queue:      newHistogram(latency...),
		prompt:     newHistogram(lengths...),
		generation: newHistogram(lengths...),
	}
}

// finished books the end of s.
func (m *meters) finished(s *sequence, now time.Time, reason string) {
	m.success[reason]++
	m.e2e.observe(now.Sub(s.arrived).Seconds(), 1)
	if s.started.IsZero() {
		return
	}
	m.queue.observe(s.started.Sub(s.arrived).Seconds(), 1)
	m.prompt.observe(float64(s.prompt), 1)
	m.generation.observe(float64(s.produced.Load())*float64(s.width), 1)
}

// oneTwoFive returns the buckets 1, 2, 5, 10, 20, … up to most.
func oneTwoFive(most int) (buckets []float64) {
	for exp := 1; ; exp *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*exp > most {
				return buckets
			}
			buckets = append(buckets, float64(m*exp))
		}
	}
}

// histogram is a fixed-bucket histogram.
type histogram struct {
	bounds []float64
	counts []int64 // one more than bounds; not cumulative
	sum    float64
}

func newHistogram(bounds ...float64) histogram {
	return histogram{bounds: slices.Clone(bounds), counts: make([]int64, len(bounds)+1)}
}

// observe books n equal samples.
func (h *histogram) observe(v float64, n int) {
	if n <= 0 {
		return
	}
	h.counts[sort.SearchFloat64s(h.bounds, v)] += int64(n)
	h.sum += v * float64(n)
}
