package agent

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// The pages in testdata give the right values: of each engine and version, with one
// rank and with several, as they are and over the ten seconds until the later page.
func TestPages(t *testing.T) {
	type facts struct {
		cacheTokens, blockSize int64
		caching                flag
	}
	gauges := func(running, waiting, cache float64) map[string]float64 {
		m := map[string]float64{signalRunning: running, signalWaiting: waiting}
		if cache > 0 {
			m[signalCacheUse] = cache
		}
		return m
	}
	with := func(m, more map[string]float64) map[string]float64 {
		m = maps.Clone(m)
		maps.Copy(m, more)
		return m
	}
	latencies := func(avgTTFT, p90TTFT, avgITL, p90ITL float64) map[string]float64 {
		return map[string]float64{signalAvgTTFT: avgTTFT, signalP90TTFT: p90TTFT, signalAvgITL: avgITL, signalP90ITL: p90ITL}
	}
	rates := func(m map[string]float64, hits, preemptions float64) map[string]float64 {
		return with(m, map[string]float64{signalHitRate: hits, signalPreemptions: preemptions})
	}
	v9, v12 := latencies(0.1, 0.098, 0.025, 0.045), latencies(0.3, 1.75, 0.012, 0.009)
	sglang := with(latencies(0.2, 0.09, 0.02, 0.019), map[string]float64{signalHitRate: 0.4})
	cases := map[string]struct {
		first, more map[string]float64 // of the first page, and what the later one adds
		facts       facts
	}{
		"vllm-0.6":           {gauges(3, 2, 0.25), with(latencies(0.1, 0.45, 0.04, 0.0475), with(gauges(4, 2, 0.375), map[string]float64{signalPreemptions: 1})), facts{38000, 16, off}},
		"vllm-0.9":           {gauges(2, 0, 0.5), rates(v9, 0.25, 0), facts{432000, 16, on}},
		"vllm-0.9-ranks":     {gauges(5, 1, 0.625), rates(v9, 0.375, 0), facts{864000, 16, on}},
		"vllm-0.12":          {gauges(7, 1, 0.625), rates(v12, 0.75, 0.1), facts{131072, 16, on}},
		"vllm-0.12-ranks":    {gauges(28, 4, 0.625), rates(v12, 0.75, 0.4), facts{524288, 16, on}},
		"vllm-current":       {gauges(7, 1, 0.625), rates(v12, 0.75, 0.1), facts{141994, 784, on}},
		"vllm-current-ranks": {gauges(14, 2, 0.625), rates(v12, 0.75, 0.2), facts{283988, 784, on}},
		"sglang":             {gauges(14, 2, 0.25), sglang, facts{}},
		"sglang-ranks":       {gauges(28, 4, 0.25), sglang, facts{}},
		"llamacpp-old":       {gauges(2, 3, 0.42), nil, facts{}},
		"llamacpp":           {gauges(2, 3, 0), map[string]float64{signalHitRate: 0.25}, facts{}},
	}
	files, err := filepath.Glob("testdata/pages/*.txt")
	if err != nil || len(files) != 2*len(cases) {
		t.Errorf("%d pages are there (%v), and %d are looked at", len(files), err, 2*len(cases))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			read := func(suffix string) string {
				b, err := os.ReadFile("testdata/pages/" + name + suffix + ".txt")
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			var w window
			text := read("")
			near(t, look(t, &w, text, at(0)), c.first)
			near(t, look(t, &w, read("-later"), at(10)), with(c.first, c.more))
			p := scanned(t, text)
			if got := (facts{p.cacheTokens, p.blockSize, p.caching}); got != c.facts {
				t.Errorf("facts %+v, want %+v", got, c.facts)
			}
		})
	}
}
