package agent

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

var windowBegan = time.Now()

// at is a moment of a test, in seconds.
func at(seconds float64) time.Time {
	return windowBegan.Add(time.Duration(seconds * float64(time.Second)))
}

// page is an engine with so many first tokens that came within 0.1 s, 1 s and later,
// which took so long together, and with its counters.
func page(fast, slow, late int, sum float64, asked, hit, preempted int) string {
	const h = "vllm:time_to_first_token_seconds"
	return fmt.Sprintf(h+`_bucket{le="0.1"} %d
`+h+`_bucket{le="1.0"} %d
`+h+`_bucket{le="+Inf"} %d
`+h+`_count %d
`+h+`_sum %g
vllm:prefix_cache_queries_total %d
vllm:prefix_cache_hits_total %d
vllm:num_preemptions_total %d
`, fast, fast+slow, fast+slow+late, fast+slow+late, sum, asked, hit, preempted)
}

// look adds a page to a window and gives the signals.
func look(t *testing.T, w *window, text string, now time.Time) map[string]float64 {
	t.Helper()
	p := scanned(t, text)
	return p.signals(w.add(p, now), now)
}

func near(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || math.Abs(g-v) > 1e-9 {
			t.Errorf("%s is %v (%v), want %v", name, g, ok, v)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is %v and must be absent", name, g)
		}
	}
}

// Averages are over the window and not over the engine's life; what happened before
// it does not count, and nothing within it is nothing known (invariant 11).
func TestWindow(t *testing.T) {
	var w window
	first := page(1000, 0, 0, 10, 5000, 5000, 900)
	near(t, look(t, &w, first, at(0)), nil)
	near(t, look(t, &w, first, at(1)), map[string]float64{signalPreemptions: 0})
	// Ten slow ones: 9 within the bucket that holds number 9 of 10.
	next := page(1000, 10, 0, 15, 5100, 5025, 904)
	near(t, look(t, &w, next, at(2)), map[string]float64{
		signalAvgTTFT: 0.5, signalP90TTFT: 0.1 + 0.9*0.9, signalHitRate: 0.25, signalPreemptions: 2,
	})
	for s := 3.0; s < 61; s++ {
		look(t, &w, next, at(s))
	}
	near(t, look(t, &w, next, at(60.9)), map[string]float64{
		signalAvgTTFT: 0.5, signalP90TTFT: 0.1 + 0.9*0.9, signalHitRate: 0.25, signalPreemptions: 4 / 59.9,
	})
	near(t, look(t, &w, next, at(62.5)), map[string]float64{signalPreemptions: 0})
	if got := look(t, &w, next, at(1000)); len(got) != 0 {
		t.Errorf("after a long silence: %v", got)
	}
}

// An engine that was started anew is measured anew.
func TestWindowRestart(t *testing.T) {
	const oldName, newName = "vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds"
	was := page(10, 10, 10, 50, 100, 100, 10) + oldName + "_count 5\n" + oldName + "_sum 1\n"
	cases := map[string]string{
		"one counter fell":   page(10, 10, 10, 50, 100, 99, 11),
		"a bucket fell":      page(9, 11, 10, 50, 100, 100, 10),
		"the sum fell":       page(10, 10, 10, 49, 100, 100, 10),
		"all began again":    page(1, 0, 0, 0.1, 1, 1, 0),
		"a rank more":        page(10, 10, 10, 50, 100, 100, 10) + "vllm:prefix_cache_hits_total{engine=\"1\"} 5\n",
		"a series less":      strings.ReplaceAll(was, "vllm:num_preemptions_total", "other"),
		"other bounds":       strings.ReplaceAll(was, `le="0.1"`, `le="0.2"`),
		"a histogram's name": strings.ReplaceAll(was, oldName, newName),
		"an old name is new": strings.ReplaceAll(was, "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
	}
	for name, now := range cases {
		var w window
		look(t, &w, page(5, 5, 5, 20, 50, 50, 5)+oldName+"_count 5\n"+oldName+"_sum 1\n", at(0))
		if got := look(t, &w, was, at(1)); len(got) != 4 {
			t.Errorf("%s: before: %v", name, got)
		}
		if got := look(t, &w, now, at(2)); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
		if got := look(t, &w, now, at(3)); strings.Contains(now, "preemptions") && got[signalPreemptions] != 0 || len(got) > 1 {
			t.Errorf("%s: later: %v", name, got)
		}
	}
}

// However often the engine is asked, a window is of bounded size and as long.
func TestWindowBounded(t *testing.T) {
	var w window
	for i := range 10_000 {
		now := at(float64(i) / 20)
		got := look(t, &w, page(i, 0, 0, float64(i)/100, i, i/2, i), now)
		if i > 1300 {
			if d := now.Sub(w.at(0).at); d > signalWindow || d < signalWindow-2*time.Second {
				t.Fatalf("look %d: the oldest is %v old", i, d)
			}
			if v := got[signalPreemptions]; math.Abs(v-20) > 1e-6 {
				t.Fatalf("look %d: %v a second", i, v)
			}
		}
	}
}

func TestQuantile(t *testing.T) {
	inf := math.Inf(1)
	cases := map[string]struct {
		counts []float64 // cumulative, for 1, 2, 4 and +Inf
		want   float64
	}{
		"nothing":           {[]float64{0, 0, 0, 0}, math.NaN()},
		"all in the first":  {[]float64{10, 10, 10, 10}, 0.9},
		"all in the second": {[]float64{0, 10, 10, 10}, 1.9},
		"all in the third":  {[]float64{0, 0, 10, 10}, 3.8},
		"all beyond":        {[]float64{0, 0, 0, 10}, 4},
		"at a bound":        {[]float64{9, 10, 10, 10}, 1},
		"mixed":             {[]float64{5, 8, 10, 10}, 3},
		"out of order":      {[]float64{8, 5, 10, 10}, 3},
	}
	for name, c := range cases {
		now, before := []bucket{{1, 0}, {2, 0}, {4, 0}, {inf, 0}}, []bucket{{1, 7}, {2, 8}, {4, 9}, {inf, 9}}
		for i := range now {
			now[i].count = before[i].count + c.counts[i]
		}
		if got := quantile(0.9, now, before); math.Abs(got-c.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if v := quantile(0.9, nil, nil); !math.IsNaN(v) {
		t.Errorf("no buckets: %v", v)
	}
}
