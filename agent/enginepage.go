package agent

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tokenbus/tokenbus/agent/engine"
)

// Bounds of what is believed of a page.
const (
	maxBuckets     = 256     // distinct bounds of one histogram
	maxCacheFactor = 1 << 30 // of the tokens in a block, and of the number of blocks
	maxCacheTokens = 1 << 60
)

var errBuckets = fmt.Errorf("%w: a histogram has more than %d buckets", errNoMetrics, maxBuckets)

// The scalars of an engine's page. The first ones are gauges, the rest counters.
const (
	running = iota
	waiting
	cacheUse
	queries // of the prefix cache, in tokens: hits and misses
	hits
	misses
	preemptions
	promptTokens
	numScalars

	firstCounter = queries
)

// The histograms of an engine's page.
const (
	ttft = iota
	itl
	numHistograms
)

// kind is what a sample means to an enginePage.
type kind uint8

const (
	noTarget kind = iota
	scalarValue
	histogramBucket
	histogramCount
	histogramSum
	cacheConfig
	sleepState
)

// target is where the samples of one name go. An engine may say one thing under two
// names, an old and a new one: those of the lowest rank that is there count.
type target struct {
	kind  kind
	index uint8
	rank  uint8
}

var targets = makeTargets()

func makeTargets() map[string]target {
	m := make(map[string]target)
	scalar := func(index uint8, names []string) {
		for rank, name := range names {
			m[name] = target{scalarValue, index, uint8(rank)}
		}
	}
	histogram := func(index uint8, names []string) {
		for rank, name := range names {
			m[name+"_bucket"] = target{histogramBucket, index, uint8(rank)}
			m[name+"_count"] = target{histogramCount, index, uint8(rank)}
			m[name+"_sum"] = target{histogramSum, index, uint8(rank)}
		}
	}
	for _, k := range engine.Kinds {
		for index, names := range map[uint8][]string{
			running: k.Metrics.Running, waiting: k.Metrics.Waiting, cacheUse: k.Metrics.CacheUse, queries: k.Metrics.Queries,
			hits: k.Metrics.Hits, misses: k.Metrics.Misses, preemptions: k.Metrics.Preemptions,
		} {
			scalar(index, names)
		}
		histogram(ttft, k.Metrics.TTFT)
		histogram(itl, k.Metrics.ITL)
	}
	scalar(promptTokens, []string{"vllm:prompt_tokens_total"})
	m["vllm:engine_sleep_state"] = target{kind: sleepState}
	m["vllm:cache_config_info"] = target{kind: cacheConfig}
	return m
}

// labels are the labels of a sample that matter.
type labels struct {
	le                   float64 // NaN if there is none
	blockSize, gpuBlocks int64   // 0 if there is none, or no number: an engine may say "None"
	cacheTokens          int64   // room of the cache, where the engine states it; 0 if not
	caching              flag    // of prefixes
	awake                bool    // the sample tells whether the engine is awake
	part                 bool    // the sample is of one priority; another one is of all
}

// flag is true, false or not known.
type flag int8

const (
	unknown flag = iota
	off
	on
)

func (l *labels) set(name, value []byte) {
	switch string(name) {
	case "le":
		if v, ok := parseFloat(value); ok {
			l.le = v
		}
	case "block_size":
		l.blockSize = cacheFactor(value)
	case "num_gpu_blocks":
		l.gpuBlocks = cacheFactor(value)
	case "kv_cache_size_tokens": // blocks are no measure of a cache that has several kinds of them
		l.cacheTokens = cacheFactor(value)
	case "priority":
		l.part = len(value) > 0
	case "enable_prefix_caching":
		switch string(value) {
		case "True", "true":
			l.caching = on
		case "False", "false":
			l.caching = off
		}
	case "sleep_state":
		l.awake = string(value) == "awake"
	}
}

func cacheFactor(b []byte) int64 {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > maxCacheFactor {
		return 0
	}
	return n
}

// scalar is a number that several series may give, one a data-parallel rank.
type scalar struct {
	sum  float64
	n    int // series; 0 tells that the number is unknown
	rank uint8
}

// bucket is a bucket of a histogram, cumulative as on the page.
type bucket struct{ le, count float64 }

// histogram is the sum of all series of a histogram. Series with other bounds are
// added bound by bound.
type histogram struct {
	buckets []bucket // by their bounds
	count   scalar
	sum     float64
	rank    uint8
	samples int
}

// enginePage is what one page of an engine's metrics says.
type enginePage struct {
	scalars     [numScalars]scalar
	histograms  [numHistograms]histogram
	cacheTokens int64
	blockSize   int64
	caching     flag
	asleep      bool // one of its ranks is
	samples     int  // that were needed, on the page
}

func (p *enginePage) reset() {
	for i := range p.scalars {
		p.scalars[i] = scalar{}
	}
	for i := range p.histograms {
		p.histograms[i] = histogram{buckets: p.histograms[i].buckets[:0]}
	}
	p.cacheTokens, p.blockSize, p.caching, p.asleep, p.samples = 0, 0, unknown, false, 0
}

// add takes one sample. One that is no number says nothing (invariant 11).
func (p *enginePage) add(t target, l labels, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) || t.kind == histogramBucket && math.IsNaN(l.le) || l.part {
		return nil
	}
	p.samples++
	switch t.kind {
	case scalarValue:
		p.scalars[t.index].add(t.rank, v)
		return nil
	case cacheConfig:
		p.cacheTokens = min(p.cacheTokens+cmp.Or(l.cacheTokens, l.blockSize*l.gpuBlocks), maxCacheTokens)
		p.blockSize = l.blockSize
		if l.caching != unknown && p.caching != off { // one rank without is one too many
			p.caching = l.caching
		}
		return nil
	case sleepState:
		p.asleep = p.asleep || l.awake && v == 0
		return nil
	}
	h := &p.histograms[t.index]
	switch {
	case h.samples == 0 || t.rank < h.rank:
		*h = histogram{buckets: h.buckets[:0], rank: t.rank}
	case t.rank > h.rank:
		return nil
	}
	return h.add(t.kind, l.le, v)
}

func (s *scalar) add(rank uint8, v float64) {
	switch {
	case s.n == 0 || rank < s.rank:
		*s = scalar{sum: v, n: 1, rank: rank}
	case rank == s.rank:
		s.sum += v
		s.n++
	}
}

func (h *histogram) add(k kind, le, v float64) error {
	h.samples++
	switch k {
	case histogramCount:
		h.count.add(0, v)
	case histogramSum:
		h.sum += v
	case histogramBucket:
		i, found := slices.BinarySearchFunc(h.buckets, le, func(b bucket, le float64) int {
			return cmp.Compare(b.le, le)
		})
		if found {
			h.buckets[i].count += v
			return nil
		}
		if len(h.buckets) == maxBuckets {
			return errBuckets
		}
		h.buckets = slices.Insert(h.buckets, i, bucket{le, v})
	}
	return nil
}
