package agent

import (
	"cmp"
	"math"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// slots is the truth about an agent: who holds a slot, and what the agent says of
// itself. Choosing and reserving is one step (invariant 2).
type slots struct {
	changed func() // called after each change, without the lock

	mu       sync.Mutex
	state    bus.State
	stopping bool      // the process ends
	order    bus.Order // of operators
	healthy  bool
	models   map[string]bool
	tally    tally
	history  history

	configured int           // capacity, 0: what the engine states
	stated     int           // by the engine, 0: nothing
	slow       time.Duration // in which a new or recovered agent comes to its capacity
	well       time.Time     // since when the engine is
}

func newSlots(id, epoch string, capacity int) *slots {
	s := &slots{
		state:      bus.State{ID: id, Epoch: epoch, Status: bus.StatusStarting},
		configured: capacity, changed: func() {},
	}
	s.state.Capacity = s.full()
	return s
}

// full is the capacity of an agent that has warmed up: what operators ordered, or what
// was configured, or what the engine states. s.mu is held.
func (s *slots) full() int {
	return min(cmp.Or(s.order.Capacity, s.configured, s.stated, defaultCapacity), bus.MaxCapacity)
}

// defaultCapacity is that of an engine that states no limit.
const defaultCapacity = 64

// ramped is the capacity now: it grows in proportion to the time that the engine has
// been well, from one slot. s.mu is held.
func (s *slots) ramped(now time.Time) int {
	full := s.full()
	up := now.Sub(s.well)
	if s.slow <= 0 || up >= s.slow {
		return full
	}
	return min(max(int(math.Ceil(float64(full)*up.Seconds()/s.slow.Seconds())), 1), full)
}

// tick lets the capacity grow after a start.
func (s *slots) tick(now time.Time) {
	s.mu.Lock()
	grows := s.ramped(now) != s.state.Capacity
	s.mu.Unlock()
	if grows {
		s.update(func(*slots) {})
	}
}

// take reserves a slot for a request to model of so many estimated tokens. Any note
// but NoteAccepted is a refusal.
func (s *slots) take(model string, tokens int64) bus.Note {
	s.mu.Lock()
	note := bus.NoteAccepted
	switch {
	case s.stopping || s.order.Drain || s.order.Cordon:
		note = bus.NoteDraining
	case !s.healthy:
		note = bus.NoteNotReady
	case !s.models[model]:
		note = bus.NoteUnknownModel
	case s.state.Active >= s.state.Capacity:
		note = bus.NoteBusy
	}
	if note == bus.NoteAccepted {
		s.state.Active++
		s.state.Tokens += tokens
		s.state.Seq++
	} else {
		s.tally.refuse(note)
	}
	s.mu.Unlock()
	if note == bus.NoteAccepted {
		s.changed()
	}
	return note
}

// free gives a slot back, with the tokens that it was taken for, and counts how its
// request ended.
func (s *slots) free(e ending, tokens int64) {
	now := time.Now()
	s.mu.Lock()
	s.state.Active--
	s.state.Tokens -= tokens
	if s.state.Active < 0 || s.state.Tokens < 0 {
		panic("agent: a slot was given back twice")
	}
	s.state.Seq++
	s.history.add(e.outcome, now)
	s.tally.add(e)
	s.mu.Unlock()
	s.changed()
}

// update changes the agent's condition and its status with it.
func (s *slots) update(f func(*slots)) {
	s.mu.Lock()
	before, healthy := s.state, s.healthy
	f(s)
	now := time.Now()
	if s.healthy && !healthy {
		s.well = now
	}
	s.state.Capacity = s.ramped(now)
	switch {
	case s.stopping || s.order.Drain:
		s.state.Status = bus.StatusDraining
	case s.order.Cordon:
		s.state.Status = bus.StatusCordoned
	case len(s.models) == 0:
		s.state.Status = bus.StatusStarting
	default:
		s.state.Status = bus.StatusReady
	}
	if s.state != before {
		s.state.Seq++
	}
	s.mu.Unlock()
	s.changed()
}

func (s *slots) now() bus.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// counted gives the lifetime counters.
func (s *slots) counted() (bus.AgentCounts, bus.Latencies) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally.counts.Clone(), s.tally.latencies
}

// count changes the lifetime counters.
func (s *slots) count(f func(*tally)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.tally)
}

// describe adds what only the whole record says.
func (s *slots) describe(r *bus.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.order.Idle() {
		o := s.order
		r.Order = &o
	}
	if full := s.full(); full != s.state.Capacity {
		r.FullCapacity = full
	}
}

// signals are the measurements of how requests ended.
func (s *slots) signals(now time.Time) map[string]float64 {
	out := make(map[string]float64, 16)
	s.mu.Lock()
	defer s.mu.Unlock()
	if rate, ok := s.history.successRate(now); ok {
		out[signalSuccess] = rate
	}
	out[signalFailures] = float64(s.history.failures)
	return out
}

// ordered is the order in force.
func (s *slots) ordered() bus.Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order
}

// leaving reports whether the process ends.
func (s *slots) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

func (s *slots) active() int { return s.now().Active }
