package main

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"time"
)

// closedLoop sends one request after the other from each of so many clients, for so
// long. It gives the latency of each whole request in nanoseconds, and
// what each process of the target used.
func (b *bench) closedLoop(ctx context.Context, t *target, clients int, window time.Duration) (latencies []float64, used []usage, err error) {
	client := newClient()
	defer client.CloseIdleConnections()
	body := chatBody(b.options, 16, false)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// The first requests dial and are not counted.
	warm := window / 10
	begin := time.Now().Add(warm)
	end := begin.Add(window)
	all := make([][]float64, clients)
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			got := make([]float64, 0, 1<<14)
			for at := time.Now(); at.Before(end); at = time.Now() {
				resp, err := postChat(ctx, client, t.url, body)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					err = errors.Join(err, resp.Body.Close())
				}
				if err != nil {
					errs[i] = err
					cancel()
					break
				}
				if done := time.Now(); at.After(begin) && done.Before(end) {
					got = append(got, float64(done.Sub(at)))
				}
			}
			all[i] = got
		})
	}
	used, failure := b.during(ctx, t, begin, end)
	wg.Wait()
	for i := range all {
		latencies = append(latencies, all[i]...)
	}
	return latencies, used, errors.Join(append(errs, failure)...)
}

// during measures what a target's processes use from begin to end, and lets a profile
// start.
func (b *bench) during(ctx context.Context, t *target, begin, end time.Time) ([]usage, error) {
	if err := sleep(ctx, time.Until(begin)); err != nil {
		return nil, err
	}
	before, err := t.used()
	if err != nil {
		return nil, err
	}
	b.steady(ctx, t)
	if err := sleep(ctx, time.Until(end)); err != nil {
		return nil, err
	}
	after, err := t.used()
	if err != nil {
		return nil, err
	}
	for i := range after {
		after[i].cpu -= before[i].cpu
		after[i].switches -= before[i].switches
	}
	return after, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// turn is what streamLoop saw. Times are nanoseconds since its start.
type turn struct {
	begin, end int64 // of measuring
	streams    []stream
	clock      stepClock
	used       []usage
	errs       []error // of streams
}

// Streams differ in length, so that they do not end together.
const (
	leastTokens = 100
	mostTokens  = 150
	probes      = 3
	ramp        = time.Second
)

// pause is the time between two streams of one client: any part of two steps, from a
// fixed sequence. Without it a client would always send right after a step of the
// engine, and a request that is almost a step late would still get the next one.
func pause(k int) time.Duration {
	_, part := math.Modf(float64(k) * math.Phi)
	return time.Duration(part * 2 * float64(stepInterval))
}

// streamLoop keeps so many streams under way: they start within a second, evenly,
// and each that ends is followed by another. After that it measures for so long, and
// then closes all of them.
func (b *bench) streamLoop(ctx context.Context, t *target, url string, count int, window time.Duration) (turn, error) {
	client, straight := newClient(), newClient()
	defer client.CloseIdleConnections()
	defer straight.CloseIdleConnections()
	bodies := make([][]byte, mostTokens+1)
	for n := leastTokens; n <= mostTokens; n++ {
		bodies[n] = chatBody(b.options, n, true)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := time.Now()
	now := func() int64 { return int64(time.Since(start)) }
	var wg sync.WaitGroup

	seen := make([][]int64, probes)
	long := chatBody(b.options, 30000, true)
	for i := range seen {
		wg.Go(func() {
			s, _ := readStream(ctx, straight, url, long, 30000, b.events(), now) // ends with ctx
			seen[i] = s.arrivals
		})
	}
	first := start.Add(200 * time.Millisecond)
	begin := first.Add(ramp + ramp/4)
	end := begin.Add(window)
	all, errs := make([][]stream, count), make([][]error, count)
	for i := range count {
		wg.Go(func() {
			if sleep(ctx, time.Until(first.Add(ramp*time.Duration(i)/time.Duration(count)))) != nil {
				return
			}
			for k := i * 7; ctx.Err() == nil; k += 13 {
				tokens := leastTokens + k%(mostTokens-leastTokens+1)
				s, err := readStream(ctx, client, t.url, bodies[tokens], tokens, b.events(), now)
				all[i] = append(all[i], s)
				if err != nil && ctx.Err() == nil {
					errs[i] = append(errs[i], err)
				}
				_ = sleep(ctx, pause(k))
			}
		})
	}
	used, err := b.during(ctx, t, begin, end)
	cancel()
	wg.Wait()
	r := turn{begin: int64(begin.Sub(start)), end: int64(end.Sub(start)), used: used}
	r.clock = newStepClock(stepInterval, seen...)
	for i := range all {
		r.streams = append(r.streams, all[i]...)
		r.errs = append(r.errs, errs[i]...)
	}
	return r, err
}
