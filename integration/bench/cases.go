package main

import (
	"context"
	"fmt"
	"time"
)

// benchCase is one load.
type benchCase struct {
	name   string
	title  string
	engine []string // flags of the simulated engine
	slices int      // parts of a round that the targets take turns in
	once   bool     // needs processes that did nothing before: one round only
	turn   func(ctx context.Context, b *bench, f *fleet, t *target) (values, error)
}

// values are the measures of one turn, by name.
type values map[string]float64

// Names of measures, as the table prints them.
const (
	latencyP50     = "latency p50, µs"
	latencyP99     = "latency p99, µs"
	rate           = "requests/s"
	cpuRequest     = "CPU a request, µs"
	cpuToken       = "CPU a token, µs"
	tokenRate      = "tokens/s"
	delayP50       = "delay of a token p50, ms"
	delayP99       = "delay of a token p99, ms"
	gapP99         = "gap between tokens p99, ms"
	firstP50       = "time to first byte p50, ms"
	firstP99       = "time to first byte p99, ms"
	failed         = "failed streams"
	memoryEach     = "anonymous memory a stream, KiB"
	residentEach   = "resident memory a stream, KiB"
	stackEach      = "stacks a stream, KiB"
	goroutinesEach = "goroutines a stream"
	activeLeft     = "requests active after the close"
	goroutinesLeft = "goroutines a process gained, after the close"
)

// stepInterval is the engine's time for a token in the cases with streams.
const stepInterval = 20 * time.Millisecond

var (
	instant = []string{"--token-interval", "0s", "--prefill-base", "0s", "--prefill-per-1k-chars", "0s"}
	stepped = []string{"--token-interval", stepInterval.String(), "--prefill-base", "0s", "--prefill-per-1k-chars", "0s"}
)

// cases are the loads of the benchmark, in their order.
var cases = []benchCase{
	{name: "latency", title: "one request at a time, instant engine", engine: instant, slices: 4, turn: latencyTurn},
	{name: "throughput", title: "64 clients, instant engine", engine: instant, slices: 1, turn: throughputTurn},
	{name: "streams-64", title: "64 streams of 50 tokens/s", engine: stepped, slices: 1, turn: streamsTurn(64)},
	{name: "streams-256", title: "256 streams of 50 tokens/s", engine: stepped, slices: 1, turn: streamsTurn(256)},
	{name: "quiet", title: "quiet streams", engine: stepped, slices: 1, once: true, turn: quietTurn},
}

const (
	micro = float64(time.Microsecond)
	milli = float64(time.Millisecond)
)

func latencyTurn(ctx context.Context, b *bench, _ *fleet, t *target) (values, error) {
	all, _, err := b.closedLoop(ctx, t, 1, b.window)
	return values{latencyP50: percentile(all, 0.5) / micro, latencyP99: percentile(all, 0.99) / micro}, err
}

func throughputTurn(ctx context.Context, b *bench, _ *fleet, t *target) (values, error) {
	all, used, err := b.closedLoop(ctx, t, 64, b.window)
	v := values{
		rate:       float64(len(all)) / b.window.Seconds(),
		latencyP50: percentile(all, 0.5) / micro,
		latencyP99: percentile(all, 0.99) / micro,
	}
	v.addUsage("request", t, used, len(all))
	return v, err
}

// addUsage adds what all processes together used for each of count requests or
// tokens.
func (v values) addUsage(what string, t *target, used []usage, count int) {
	if count == 0 {
		return
	}
	for i, u := range used {
		v.addPart("CPU a "+what+", µs", t, i, float64(u.cpu)/micro/float64(count))
		v.addPart("thread sleeps a "+what, t, i, u.switches/float64(count))
	}
}

// addPart adds to a measure the part of one process, and names that part when there
// are several processes.
func (v values) addPart(name string, t *target, i int, part float64) {
	v[name] += part
	if len(t.procs) > 1 {
		v[name+": "+t.procs[i].role] = part
	}
}

// streamsTurn measures so many streams.
func streamsTurn(count int) func(context.Context, *bench, *fleet, *target) (values, error) {
	return func(ctx context.Context, b *bench, f *fleet, t *target) (values, error) {
		r, err := b.streamLoop(ctx, t, f.url, count, b.window)
		if err != nil {
			return nil, err
		}
		b.noteFailures(t, r.errs)
		if err := f.idle(ctx); err != nil {
			return nil, fmt.Errorf("%s, after its streams were closed: %w", t.name, err)
		}
		return r.values(t), nil
	}
}

// values evaluates a turn. A token counts when it arrived while measuring, a first
// byte whenever it came.
func (r turn) values(t *target) values {
	var delays, gaps, firsts []float64
	tokens, lost := 0, 0
	for _, s := range r.streams {
		if s.first > 0 {
			firsts = append(firsts, float64(s.first-s.sent))
		}
		measured := 0
		for i, at := range s.arrivals {
			if at < r.begin || at > r.end {
				continue
			}
			measured++
			if i > 0 {
				gaps = append(gaps, float64(at-s.arrivals[i-1]))
			}
		}
		tokens += measured
		d := r.clock.delays(s.arrivals, r.begin, r.end)
		if lost += measured - len(d); len(d) > 0 {
			delays = append(delays, d...)
		}
	}
	v := values{
		failed:    float64(len(r.errs)),
		tokenRate: float64(tokens) / (float64(r.end-r.begin) / float64(time.Second)),
		gapP99:    percentile(gaps, 0.99) / milli,
		firstP50:  percentile(firsts, 0.5) / milli,
		firstP99:  percentile(firsts, 0.99) / milli,
	}
	// A delay of tokens that mostly did not find their step is no figure.
	if lost*50 < tokens {
		v[delayP50], v[delayP99] = percentile(delays, 0.5)/milli, percentile(delays, 0.99)/milli
	}
	v.addUsage("token", t, r.used, tokens)
	return v
}
