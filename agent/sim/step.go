package sim

import (
	"container/heap"
	"time"
)

// advance does everything that is due at now: prefills that end, and one
// decode step. It returns the time of the next such event; ok is false when
// the engine is idle and only a new request can change that.
//
// All decoding sequences share one clock. It starts with the first sequence
// whose prefill ends, which gets its first token at that moment; whoever joins
// later gets its first token at the next tick. So a lone request of n tokens
// takes prefill + (n-1) × TokenInterval.
func (e *engine) advance(now time.Time) (next time.Time, ok bool) {
	// A step frees slots and a prefill may take no time, so what a round
	// admits can be due in the same instant.
	for {
		for len(e.prefill) > 0 && !e.prefill[0].due.After(now) {
			s := e.prefill[0]
			heap.Remove(&e.prefill, 0)
			e.prefilled(s, now)
		}
		if len(e.decode) > 0 && !e.step.After(now) {
			planned := e.step
			e.tick(now)
			// A late step delays the next instead of bunching up.
			if e.step = planned.Add(e.cfg.TokenInterval); !e.step.After(now) {
				e.step = now.Add(e.cfg.TokenInterval)
			}
		}
		if len(e.decode) == 0 {
			e.step = time.Time{}
		}
		if len(e.prefill) == 0 || e.prefill[0].due.After(now) {
			break
		}
	}
	if len(e.decode) > 0 {
		next, ok = e.step, true
	}
	if len(e.prefill) > 0 && (!ok || e.prefill[0].due.Before(next)) {
		next, ok = e.prefill[0].due, true
	}
	return next, ok
}

// tick hands every decoding sequence its token.
func (e *engine) tick(now time.Time) {
	// Completed sequences leave by swapping the last one into their place;
	// those admitted meanwhile are appended and must wait for their own step.
	for i := len(e.decode) - 1; i >= 0; i-- {
		s := e.decode[i]
		if s.skip > 0 {
			s.skip--
			continue
		}
		s.skip = s.stride - 1
		n := s.produced.Add(1)
		e.grow(s, 1)
		if n == 1 {
			s.first = now
			e.meters.ttft.observe(now.Sub(s.arrived).Seconds(), 1)
		} else {
			e.meters.itl.observe(now.Sub(s.last).Seconds(), 1)
		}
		s.last = now
		switch {
		case int(n) == s.want:
			e.complete(s, now)
		case int(n) == s.stopAt:
			e.undecode(s)
			s.state.Store(held)
			s.notify()
		case s.each:
			s.notify()
		}
	}
}

// prefillHeap orders prefills by their end.
type prefillHeap []*sequence

func (h prefillHeap) Len() int           { return len(h) }
func (h prefillHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h prefillHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *prefillHeap) Push(x any) {
	s := x.(*sequence)
	s.index = len(*h)
	*h = append(*h, s)
}
func (h *prefillHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	s.index = -1
	return s
}
