package agent

import (
	"math"
	"slices"
	"time"
)

// Averages, rates and quantiles are over the last signalWindow. A window keeps at
// most windowSamples pages for that, however often the engine is asked.
const (
	signalWindow  = time.Minute
	windowSamples = 60
)

// totals are the numbers of a page that only grow while the engine lives.
type totals struct {
	at         time.Time
	counters   [numScalars]scalar
	histograms [numHistograms]histogram
}

func (t *totals) take(p *enginePage, at time.Time) {
	t.at, t.counters = at, p.scalars
	for i, h := range p.histograms {
		kept := append(t.histograms[i].buckets[:0], h.buckets...)
		t.histograms[i] = h
		t.histograms[i].buckets = kept
	}
}

// follows reports whether a page may come from the engine that gave t: the same
// series, of which none went down. If not, the engine was started anew.
func (t *totals) follows(p *enginePage) bool {
	for i := firstCounter; i < numScalars; i++ {
		if !t.counters[i].grew(p.scalars[i]) {
			return false
		}
	}
	for i, was := range t.histograms {
		is := p.histograms[i]
		if was.rank != is.rank || !was.count.grew(is.count) || is.sum < was.sum ||
			!slices.EqualFunc(was.buckets, is.buckets, func(a, b bucket) bool { return a.le == b.le && a.count <= b.count }) {
			return false
		}
	}
	return true
}

func (s scalar) grew(now scalar) bool { return s.n == now.n && s.rank == now.rank && s.sum <= now.sum }

// window is what an engine said within the last signalWindow.
type window struct {
	last totals                // of the page before, however near
	ring [windowSamples]totals // the oldest is at first
	from int
	n    int
}

func (w *window) at(i int) *totals { return &w.ring[(w.from+i)%windowSamples] }

// forget empties the window.
func (w *window) forget() { w.n = 0 }

// add takes a page and gives the oldest of its window, nil if there is none before it.
func (w *window) add(p *enginePage, now time.Time) *totals {
	if w.n > 0 && !w.last.follows(p) {
		w.forget()
	}
	for w.n > 0 && now.Sub(w.at(0).at) > signalWindow {
		w.from, w.n = (w.from+1)%windowSamples, w.n-1
	}
	w.last.take(p, now)
	var oldest *totals
	if w.n > 0 {
		oldest = w.at(0)
	}
	if w.n == 0 || w.n < windowSamples && now.Sub(w.at(w.n-1).at) >= signalWindow/windowSamples {
		w.at(w.n).take(p, now)
		w.n++
	}
	return oldest
}

// signals measures the engine by a page and the oldest of its window. What the page
// does not say, and an average over nothing, is absent (invariant 11).
func (p *enginePage) signals(old *totals, now time.Time) map[string]float64 {
	out := make(map[string]float64, 10)
	gauge := func(name string, s scalar, of float64) {
		if s.n > 0 {
			out[name] = s.sum / of
		}
	}
	gauge(signalRunning, p.scalars[running], 1)
	gauge(signalWaiting, p.scalars[waiting], 1)
	gauge(signalCacheUse, p.scalars[cacheUse], float64(p.scalars[cacheUse].n))
	if old == nil {
		return out
	}
	grown := func(i int) float64 { return p.scalars[i].sum - old.counters[i].sum }
	asked := grown(queries)
	if p.scalars[queries].n == 0 {
		asked = grown(hits) + grown(misses)
	}
	if asked > 0 && p.scalars[hits].n > 0 && p.scalars[queries].n+p.scalars[misses].n > 0 {
		out[signalHitRate] = min(grown(hits)/asked, 1)
	}
	if d := now.Sub(old.at).Seconds(); d > 0 && p.scalars[preemptions].n > 0 {
		out[signalPreemptions] = grown(preemptions) / d
	}
	for i, names := range [numHistograms][2]string{ttft: {signalAvgTTFT, signalP90TTFT}, itl: {signalAvgITL, signalP90ITL}} {
		h, was := &p.histograms[i], &old.histograms[i]
		count := h.count.sum - was.count.sum
		if count <= 0 {
			continue
		}
		out[names[0]] = (h.sum - was.sum) / count
		if v := quantile(0.9, h.buckets, was.buckets); !math.IsNaN(v) {
			out[names[1]] = v
		}
	}
	return out
}

// quantile estimates the value below which the share q of what a histogram took
// since an earlier page lies, as Prometheus' histogram_quantile does. With the n
// values sorted, the wanted one is number q·n. It lies in the first bucket whose
// cumulative count reaches that, and is interpolated between the bucket's bounds:
//
//	low + (high − low) · (q·n − count below low) / (count within the bucket)
//
// The first bucket begins at 0. If the wanted one is in the bucket without an upper
// bound, the result is the highest bound there is. It is NaN if there is nothing.
// Both lists have the same bounds.
func quantile(q float64, now, before []bucket) float64 {
	n := 0.0
	for i := range now {
		n = max(n, now[i].count-before[i].count)
	}
	if n <= 0 {
		return math.NaN()
	}
	low, below := 0.0, 0.0
	for i, b := range now {
		// Series with other bounds, added up, need not be in order.
		upTo := max(b.count-before[i].count, below)
		if upTo < q*n {
			low, below = b.le, upTo
			continue
		}
		switch {
		case math.IsInf(b.le, 1):
			if i == 0 {
				return math.NaN()
			}
			return low
		case i == 0 && b.le <= 0:
			return b.le
		}
		return low + (b.le-low)*(q*n-below)/(upTo-below)
	}
	return math.NaN()
}
