package agent

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
)

// twoRanks is a page as vLLM writes it, of an engine with two data-parallel ranks.
const twoRanks = `# HELP python_info Python platform information.
# TYPE python_info gauge
python_info{implementation="CPython",major="3",minor="12"} 1.0
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 1000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 2000.0
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 100.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 200.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 5.0
vllm:num_preemptions_total{engine="1",model_name="m"} 6.0
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="m"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 2.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.55
vllm:time_to_first_token_seconds_bucket{engine="1",le="0.1",model_name="m"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="1.0",model_name="m"} 10.0
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf",model_name="m"} 11.0
vllm:time_to_first_token_seconds_count{engine="1",model_name="m"} 11.0
vllm:time_to_first_token_seconds_sum{engine="1",model_name="m"} 2.5
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="1000",sliding_window="None"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="500",sliding_window="None"} 1.0
`

func scanned(t testing.TB, page string) *enginePage {
	t.Helper()
	var s scanner
	var p enginePage
	if err := s.scan(strings.NewReader(page), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

// The series of one name are added; fractions are averaged later.
func TestScanRanks(t *testing.T) {
	var s scanner
	var p enginePage
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(twoRanks), "by bytes": iotest.OneByteReader(strings.NewReader(twoRanks))} {
		if err := s.scan(r, &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := [numScalars]scalar{
			running: {7, 2, 0}, waiting: {1, 2, 0}, cacheUse: {1, 2, 0}, queries: {3000, 2, 0}, hits: {300, 2, 0}, preemptions: {11, 2, 0},
		}
		if p.scalars != want {
			t.Errorf("%s: got %v, want %v", name, p.scalars, want)
		}
		h := p.histograms[ttft]
		if len(h.buckets) != 3 || h.buckets[0] != (bucket{0.1, 11}) || h.buckets[1] != (bucket{1, 12}) ||
			h.buckets[2] != (bucket{math.Inf(1), 13}) || h.count.sum != 13 || h.sum != 3.05 {
			t.Errorf("%s: histogram %+v", name, h)
		}
		if p.cacheTokens != 24000 {
			t.Errorf("%s: room for %d tokens", name, p.cacheTokens)
		}
		if v := p.signals(nil, at(0))[signalCacheUse]; v != 0.5 {
			t.Errorf("%s: cache use %v", name, v)
		}
	}
}

// An engine that says one thing under two names is not counted twice, in whichever
// order they come.
func TestScanNames(t *testing.T) {
	for page, want := range map[string]float64{
		"vllm:gpu_cache_usage_perc 0.3\n":                                                             0.3,
		"vllm:gpu_cache_usage_perc 0.3\nvllm:kv_cache_usage_perc 0.4\n":                               0.4,
		"vllm:kv_cache_usage_perc 0.4\nvllm:gpu_cache_usage_perc 0.3\n":                               0.4,
		"vllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 0.3\n":                               0.3,
		"vllm:kv_cache_usage_perc\nvllm:kv_cache_usage_perc x\n \t vllm:kv_cache_usage_perc 1 7\n":    1,
		"{\"vllm:kv_cache_usage_perc\",a=\"b\"} 0.2\n":                                                0.2,
		"{ a = \"}\\\"{\" , \"vllm:kv_cache_\\u\" } 9\n{a=\"b\",\"vllm:kv_cache_usage_perc\",} 0.2\n": 0.2,
		"vllm:kv_cache_usage_perc{a=\"} 5\\\\\",b=\"\"}0.6\nvllm:kv_cache_usage_perc 0.7":             0.6,
	} {
		if s := scanned(t, page).scalars[cacheUse]; s.n != 1 || s.sum != want {
			t.Errorf("%q: got %+v, want %v", page, s, want)
		}
	}
	old := "vllm:time_per_output_token_seconds_count 3\nvllm:time_per_output_token_seconds_sum 6\n"
	now := "vllm:inter_token_latency_seconds_count 4\nvllm:inter_token_latency_seconds_sum 4\n"
	for page, want := range map[string]float64{old: 3, now: 4, old + now: 4, now + old: 4} {
		if h := scanned(t, page).histograms[itl]; h.count.sum != want || h.count.n != 1 {
			t.Errorf("%q: %+v", page, h)
		}
	}
}

// What an engine does not know of its cache is no room of zero blocks of "None".
func TestScanCacheConfig(t *testing.T) {
	for page, want := range map[string]int64{
		`vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1`:                 0,
		`vllm:cache_config_info{block_size="16"} 1`:                                       0,
		`vllm:cache_config_info{block_size="-16",num_gpu_blocks="4"} 1`:                   0,
		`vllm:cache_config_info{block_size="16",num_gpu_blocks="99999999999999999999"} 1`: 0,
		`vllm:cache_config_info{num_gpu_blocks="4",block_size="16"} 1`:                    64,
		`vllm:cache_config_info{num_gpu_blocks="1073741824",block_size="1073741824"} 1`:   1 << 60,
	} {
		if got := scanned(t, page+"\n"+page+"x\n").cacheTokens; got != want {
			t.Errorf("%s: %d tokens, want %d", page, got, want)
		}
	}
}

// repeat is a text without an end.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// A page is read within bounds (invariant 10).
func TestScanBounds(t *testing.T) {
	var many strings.Builder
	for i := range maxBuckets + 1 {
		many.WriteString("vllm:inter_token_latency_seconds_bucket{le=\"" + strings.Repeat("1", i+1) + "\"} 1\n")
	}
	long := strings.Repeat("x", maxPageLine)
	cases := map[string]struct {
		page io.Reader
		want error
	}{
		"endless":        {&repeat{text: "vllm:num_requests_running 1\n"}, errPageSize},
		"endless line":   {&repeat{text: "x"}, errPageLine},
		"long line":      {strings.NewReader(long + "x\n"), errPageLine},
		"longest line":   {strings.NewReader("\n" + long + "\n"), nil},
		"bounds":         {strings.NewReader(many.String()), errBuckets},
		"broken":         {io.MultiReader(strings.NewReader("vllm:num"), iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
		"reads nothing":  {nothing{}, io.ErrNoProgress},
		"nothing at all": {strings.NewReader(""), nil},
	}
	for name, c := range cases {
		var s scanner
		var p enginePage
		if err := s.scan(c.page, &p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if len(s.buf) > maxPageLine+pageBuffer {
			t.Errorf("%s: a buffer of %d bytes", name, len(s.buf))
		}
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

// Reading a page again allocates nothing.
func TestScanAllocates(t *testing.T) {
	var s scanner
	var p enginePage
	page := realPage(t)
	r := strings.NewReader(page)
	if n := testing.AllocsPerRun(20, func() {
		r.Reset(page)
		if err := s.scan(r, &p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a page", n)
	}
}

func BenchmarkScan(b *testing.B) {
	var s scanner
	var p enginePage
	page := realPage(b)
	r := strings.NewReader(page)
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(page)
		if err := s.scan(r, &p); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPageFacts: an engine tells whether it keeps prefixes, and whether one of its ranks
// sleeps; what it does not tell is not known.
func TestPageFacts(t *testing.T) {
	config := func(rank, caching string) string {
		return `vllm:cache_config_info{engine="` + rank + `",block_size="16",num_gpu_blocks="10",enable_prefix_caching="` + caching + "\"} 1\n"
	}
	state := func(rank, state, v string) string {
		return `vllm:engine_sleep_state{engine="` + rank + `",sleep_state="` + state + `"} ` + v + "\n"
	}
	cases := map[string]struct {
		page    string
		caching flag
		asleep  bool
	}{
		"nothing said":      {"vllm:num_requests_running 0\n", unknown, false},
		"no word":           {config("0", "None"), unknown, false},
		"caches":            {config("0", "True") + config("1", "True"), on, false},
		"one does not":      {config("0", "False") + config("1", "True"), off, false},
		"the other neither": {config("0", "True") + config("1", "False"), off, false},
		"awake":             {state("0", "awake", "1") + state("0", "discard_all", "0"), unknown, false},
		"one rank sleeps":   {state("0", "awake", "1") + state("1", "awake", "0") + state("1", "discard_all", "1"), unknown, true},
	}
	for name, c := range cases {
		if p := scanned(t, c.page); p.caching != c.caching || p.asleep != c.asleep {
			t.Errorf("%s: caching %d, asleep %v", name, p.caching, p.asleep)
		}
	}
}
