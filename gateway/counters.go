package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/tokenbus/tokenbus/bus"
)

// counters count what clients saw.
type counters struct {
	active    atomic.Int64
	cancelled [numPhases]atomic.Uint64 // the client left
	broken    atomic.Uint64            // after the head
	classes   [6]atomic.Uint64

	mu       sync.Mutex
	refusals map[bus.Reason]uint64
}

func (c *counters) status(code int) {
	if i := code / 100; i < len(c.classes) {
		c.classes[i].Add(1)
	}
}

func (c *counters) rejected(r bus.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals == nil {
		c.refusals = make(map[bus.Reason]uint64)
	}
	c.refusals[r]++
}

// Counters are what a gateway has done so far.
type Counters struct {
	Active    int64
	Cancelled uint64
	Broken    uint64
	Answered  [6]uint64 // by the first digit of the status that an engine gave
	Rejected  map[bus.Reason]uint64
}

// Counters gives a copy of the counters.
func (g *Gateway) Counters() Counters {
	c := &g.counters
	out := Counters{Active: c.active.Load(), Broken: c.broken.Load(), Rejected: make(map[bus.Reason]uint64)}
	for i := range c.cancelled {
		out.Cancelled += c.cancelled[i].Load()
	}
	for i := range c.classes {
		out.Answered[i] = c.classes[i].Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for r, n := range c.refusals {
		out.Rejected[r] = n
	}
	return out
}
