package main

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		p      float64
		want   float64
	}{
		"one value":     {[]float64{7}, 0.99, 7},
		"median of two": {[]float64{3, 1}, 0.5, 2},
		"median of odd": {[]float64{9, 1, 5}, 0.5, 5},
		"lowest":        {[]float64{9, 1, 5}, 0, 1},
		"highest":       {[]float64{9, 1, 5}, 1, 9},
		"between":       {[]float64{0, 10, 20, 30, 40}, 0.9, 36},
	} {
		if got := percentile(c.values, c.p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if got := percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of nothing: got %v, want not a number", got)
	}
	values := []float64{3, 1, 2}
	if median(values); values[0] != 3 {
		t.Error("median changed its argument")
	}
}

// steps makes the times of so many steps of 20 ms from a start on, each later by
// late(i).
func steps(start time.Duration, count int, late func(i int) time.Duration) []int64 {
	all := make([]int64, count)
	for i := range all {
		all[i] = int64(start + time.Duration(i)*stepInterval + late(i))
	}
	return all
}

func TestStepClock(t *testing.T) {
	never := func(int) time.Duration { return 0 }
	clock := newStepClock(stepInterval,
		steps(time.Second, 200, func(i int) time.Duration { return time.Duration(i%2) * time.Millisecond }),
		steps(time.Second+3*stepInterval, 190, func(i int) time.Duration { return time.Duration((i+3)%2) * -300 * time.Microsecond }))
	for name, c := range map[string]struct {
		late func(i int) time.Duration
		want time.Duration
	}{
		"prompt":              {never, 0},
		"always late":         {func(int) time.Duration { return 9 * time.Millisecond }, 9 * time.Millisecond},
		"mostly very late":    {func(i int) time.Duration { return time.Duration(min(i%5, 1)) * 35 * time.Millisecond }, 35 * time.Millisecond},
		"before its own step": {func(int) time.Duration { return -time.Millisecond }, -time.Millisecond},
	} {
		arrivals := steps(time.Second+50*stepInterval, 100, c.late)
		got := clock.delays(arrivals, 0, math.MaxInt64)
		if len(got) != 100 {
			t.Errorf("%s: %d of 100 tokens found their step", name, len(got))
			continue
		}
		if d := time.Duration(median(got)) - c.want; d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("%s: median delay is off by %v", name, d)
		}
	}
	if got := clock.delays(steps(time.Minute, 10, never), 0, math.MaxInt64); got != nil {
		t.Errorf("a stream after the clock's end: got %d delays", len(got))
	}
	if got := (stepClock{}).delays(steps(0, 10, never), 0, math.MaxInt64); got != nil {
		t.Errorf("no clock: got %d delays", len(got))
	}
}

func TestReport(t *testing.T) {
	r := result{benchCase: cases[0], turns: map[string][]values{
		direct:   {{latencyP50: 100}, {latencyP50: 110}, {latencyP50: 105}},
		proxy:    {{latencyP50: 200}, {latencyP50: 210}, {latencyP50: 205}},
		tokenbus: {{latencyP50: 280}, {latencyP50: 500}, {latencyP50: 285}},
	}}
	var out bytes.Buffer
	if err := report(&out, "bench", []string{direct, proxy, tokenbus}, []result{r}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| latency | added latency p50 | ≤ 2.00× | 1.80× (1.80–3.90) | met | | |\n",
		"| latency | latency p50, µs | 105 | 205 | 285 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in:\n%s", want, out.String())
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-case", "quiet,latency", "-procs", "gateway=1", "-targets", "direct,tuned"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.cases) != 2 || o.cases[0].name != "quiet" || o.procs["gateway"] != 1 || o.targets[1] != tuned {
		t.Errorf("got %+v", o)
	}
	for _, bad := range [][]string{
		{"-case", "none"}, {"-targets", "none"}, {"-procs", "gateway=0"}, {"-procs", "sim=1"}, {"-rounds", "0"}, {"extra"},
	} {
		if _, err := parseOptions(bad, io.Discard); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func TestBarsNameCases(t *testing.T) {
	for _, x := range bars {
		if err := new(options).choose(x.of); err != nil {
			t.Errorf("%s: %v", x.what, err)
		}
	}
}
