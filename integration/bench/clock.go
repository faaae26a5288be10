package main

import (
	"slices"
	"sort"
	"time"
)

// stepClock holds the reference time of each step of the engine, in the order of the
// steps, in nanoseconds. Every stream gets exactly one token a step from its first
// on, so a stream is mapped to steps by one number: the step of its first token.
type stepClock struct {
	steps    []int64
	interval time.Duration
}

// slack is by how much the earliest tokens of a stream may be before the reference
// time of their steps, which a busy machine can delay, too.
const slack = 5 * time.Millisecond

// newStepClock builds a clock from streams that went straight to the engine: a
// step's time is its earliest arrival at any of them.
func newStepClock(interval time.Duration, probes ...[]int64) stepClock {
	c := stepClock{interval: interval}
	if len(probes) == 0 {
		return c
	}
	first := stepClock{steps: probes[0], interval: interval}
	c.steps = slices.Clone(first.steps)
	for _, p := range probes[1:] {
		start, ok := first.align(p)
		if !ok {
			continue
		}
		for i, at := range p {
			if k := start + i; k >= 0 && k < len(c.steps) {
				c.steps[k] = min(c.steps[k], at)
			}
		}
	}
	return c
}

// align finds the step of a stream's first token. No token can be before its step,
// and the luckiest tokens of a stream are hardly late; so it is the step for which
// the lowest delays (the fifth percentile) are between −slack and one interval less
// slack. That is right as long as a target adds less than 15 ms to its luckiest
// tokens at 20 ms a step, however late the others are. ok is false for a stream that
// the clock does not cover.
func (c stepClock) align(arrivals []int64) (start int, ok bool) {
	if len(arrivals) == 0 || len(c.steps) == 0 {
		return 0, false
	}
	start = sort.Search(len(c.steps), func(i int) bool { return c.steps[i] > arrivals[0] }) - 1
	for range 20 {
		delays := c.from(start, arrivals)
		if len(delays) == 0 {
			return 0, false
		}
		switch low := percentile(delays, 0.05); {
		case low < -float64(slack):
			start--
		case low >= float64(c.interval-slack):
			start++
		default:
			return start, true
		}
	}
	return 0, false
}

// from gives the delays of a stream whose first token is of the step start, without
// those of steps that the clock does not know.
func (c stepClock) from(start int, arrivals []int64) []float64 {
	delays := make([]float64, 0, len(arrivals))
	for i, at := range arrivals {
		if k := start + i; k >= 0 && k < len(c.steps) {
			delays = append(delays, float64(at-c.steps[k]))
		}
	}
	return delays
}

// delays gives the delay in nanoseconds of each token that arrived from begin to end.
func (c stepClock) delays(arrivals []int64, begin, end int64) []float64 {
	start, ok := c.align(arrivals)
	if !ok {
		return nil
	}
	var delays []float64
	for i, at := range arrivals {
		if k := start + i; at >= begin && at <= end && k >= 0 && k < len(c.steps) {
			delays = append(delays, float64(at-c.steps[k]))
		}
	}
	return delays
}
