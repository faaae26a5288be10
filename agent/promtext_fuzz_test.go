package agent

import (
	"bytes"
	"cmp"
	"maps"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// realPage is a page of the simulated engine, old names and new.
func realPage(t testing.TB) string {
	t.Helper()
	cfg := sim.Instant()
	cfg.LegacyMetrics = true
	s, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// untyped takes the types from a page: a parser that knows them folds samples
// together, and gives the last of two that have the same labels.
func untyped(page []byte) []byte {
	var out []byte
	for line := range bytes.Lines(page) {
		if rest, ok := bytes.CutPrefix(bytes.TrimLeft(line, " \t"), []byte("#")); ok {
			if f := bytes.Fields(rest); len(f) > 0 && string(f[0]) == "TYPE" && line[len(line)-1] == '\n' {
				line = []byte("#\n")
			}
		}
		out = append(out, line...)
	}
	return out
}

// expected reads a page with Prometheus' own parser; ok is false if that refuses it.
func expected(page []byte) (p enginePage, ok bool) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(untyped(page)))
	if err != nil {
		return p, false
	}
	var best [numHistograms]uint8 // rank + 1 of the histogram's name
	visit := func(f func(t target, l map[string]string, le, v float64)) {
		// The order matters nowhere: a sum is over one name.
		for _, name := range slices.Sorted(maps.Keys(families)) {
			t, ok := targets[name]
			if !ok {
				continue
			}
			for _, m := range families[name].GetMetric() {
				l := map[string]string{}
				le := math.NaN()
				for _, pair := range m.GetLabel() {
					l[pair.GetName()] = pair.GetValue()
					if v, ok := parseFloat([]byte(pair.GetValue())); ok && pair.GetName() == "le" {
						le = v
					}
				}
				v := m.GetUntyped().GetValue()
				if !math.IsNaN(v) && !math.IsInf(v, 0) && (t.kind != histogramBucket || !math.IsNaN(le)) {
					f(t, l, le, v)
				}
			}
		}
	}
	visit(func(t target, l map[string]string, _, v float64) {
		switch t.kind {
		case scalarValue:
			s := &p.scalars[t.index]
			if s.n == 0 || t.rank < s.rank {
				*s = scalar{rank: t.rank}
			}
			if t.rank == s.rank {
				s.n, s.sum = s.n+1, s.sum+v
			}
		case cacheConfig:
			p.cacheTokens = min(p.cacheTokens+cacheFactor([]byte(l["block_size"]))*cacheFactor([]byte(l["num_gpu_blocks"])), maxCacheTokens)
		default:
			if b := &best[t.index]; *b == 0 || t.rank+1 < *b {
				*b = t.rank + 1
			}
		}
	})
	var buckets [numHistograms]map[float64]float64
	visit(func(t target, _ map[string]string, le, v float64) {
		if t.kind < histogramBucket || t.kind > histogramSum || t.rank+1 != best[t.index] {
			return
		}
		h := &p.histograms[t.index]
		h.rank = t.rank
		switch t.kind {
		case histogramBucket:
			if buckets[t.index] == nil {
				buckets[t.index] = map[float64]float64{}
			}
			buckets[t.index][le] += v
		case histogramCount:
			h.count.n, h.count.sum = h.count.n+1, h.count.sum+v
		case histogramSum:
			h.sum += v
		}
	})
	for i, m := range buckets {
		for le, n := range m {
			p.histograms[i].buckets = append(p.histograms[i].buckets, bucket{le, n})
		}
		slices.SortFunc(p.histograms[i].buckets, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
	}
	return p, true
}

// FuzzScrape: for every page that Prometheus' parser accepts, the numbers agree; no
// page makes the scanner panic.
func FuzzScrape(f *testing.F) {
	f.Add([]byte(realPage(f)))
	f.Add([]byte(twoRanks))
	f.Add([]byte(strings.ReplaceAll(twoRanks, "# TYPE", "# HELP")))
	f.Add([]byte("{\"vllm:num_requests_running\", le=\"1\"} 1\n{le=\"2\",\"vllm:num_requests_waiting\"}\t2 7\nvllm:\"prompt_tokens_total\"3\n"))
	f.Add([]byte("vllm:time_to_first_token_seconds_bucket{le=\"-0\"} 1\nvllm:time_to_first_token_seconds_bucket{le=\"0\"} 1\n"))
	f.Add([]byte("vllm:time_per_output_token_seconds_sum 0\nvllm:inter_token_latency_seconds_sum -1\nvllm:inter_token_latency_seconds_count Inf\n"))
	f.Add([]byte("vllm:cache_config_info{block_size=\"1\\\\6\",num_gpu_blocks=\"\\\"3\"} NaN\nvllm:cache_config_info{block_size=\"+16\",num_gpu_blocks=\"3\"} 1\n"))
	f.Add([]byte("  # TYPE\tvllm:num_requests_running histogram\nvllm:num_requests_running{} 1\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		agree(t, page)
	})
}

// TestScrapeAgrees is FuzzScrape over pages that are put together from parts of the
// format, so that many of them are accepted.
func TestScrapeAgrees(t *testing.T) {
	names := slices.Sorted(maps.Keys(targets))
	parts := []string{" ", "\t", "{", "}", ",", "=", `"`, `\`, `\n`, "le", "x", `a="b"`, `le="0.5"`, `le="+Inf"`, `le="1"`, `block_size="16"`, `num_gpu_blocks="7"`, `num_gpu_blocks="None"`, "1", "-2.5", "NaN", "+Inf", "1e3", "_", "#", "# TYPE ", " histogram", "\n"}
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.SampledFrom(parts)
		var page []byte
		for range rapid.IntRange(1, 6).Draw(rt, "lines") {
			name := rapid.SampledFrom(names).Draw(rt, "name")
			label := rapid.SampledFrom([]string{"", "{}", `{le="0.5"}`, `{a="}\\\"",le="1"}`, `{ le = "+Inf" , }`, `{block_size="16",num_gpu_blocks="7"}`}).Draw(rt, "labels")
			line := name + label + " " + rapid.SampledFrom([]string{"1", "2.5", "-0", "NaN", "1 7"}).Draw(rt, "value")
			if rapid.Bool().Draw(rt, "quoted") && strings.HasPrefix(label, "{") {
				line = `{"` + name + `",` + label[1:] + " 3"
			}
			for range rapid.IntRange(0, 3).Draw(rt, "edits") {
				i := rapid.IntRange(0, len(line)).Draw(rt, "at")
				j := min(i+rapid.IntRange(0, 2).Draw(rt, "cut"), len(line))
				line = line[:i] + part.Draw(rt, "part") + line[j:]
			}
			page = append(append(page, line...), '\n')
		}
		if agree(rt, page) {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no page was accepted")
	}
}

// agree compares what the scanner reads with what Prometheus' parser does, if that
// accepts the page.
func agree(t rapid.TB, page []byte) (accepted bool) {
	var s scanner
	var got enginePage
	err := s.scan(bytes.NewReader(page), &got)
	want, ok := expected(page)
	if !ok || len(want.histograms[ttft].buckets) > maxBuckets || len(want.histograms[itl].buckets) > maxBuckets {
		return false
	}
	if err != nil {
		t.Fatalf("%v; Prometheus' parser accepts the page", err)
	}
	if got.scalars != want.scalars || got.cacheTokens != want.cacheTokens {
		t.Errorf("%q: got %v and %d tokens, want %v and %d", page, got.scalars, got.cacheTokens, want.scalars, want.cacheTokens)
	}
	for i, h := range got.histograms {
		if w := want.histograms[i]; !slices.Equal(h.buckets, w.buckets) || h.count != w.count || h.sum != w.sum || h.rank != w.rank {
			t.Errorf("%q: histogram %d: got %+v, want %+v", page, i, h, w)
		}
	}
	return true
}
