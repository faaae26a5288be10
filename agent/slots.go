package agent

import (
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
	draining bool
	stopping bool
	healthy  bool
	models   map[string]bool
	counts   bus.AgentCounts
	history  history
}

func newSlots(id, epoch string, capacity int) *slots {
	return &slots{
		state:   bus.State{ID: id, Epoch: epoch, Status: bus.StatusStarting, Capacity: capacity},
		changed: func() {},
	}
}

// take reserves a slot for a request to model of so many estimated tokens. Any note
// but NoteAccepted is a refusal.
func (s *slots) take(model string, tokens int64) bus.Note {
	s.mu.Lock()
	note := bus.NoteAccepted
	switch {
	case s.draining:
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
		s.counts.Refused++
	}
	s.mu.Unlock()
	if note == bus.NoteAccepted {
		s.changed()
	}
	return note
}

// free gives a slot back, with the tokens that it was taken for, and counts how its
// request ended.
func (s *slots) free(o outcome, u bus.Usage, tokens int64) {
	now := time.Now()
	s.mu.Lock()
	s.state.Active--
	s.state.Tokens -= tokens
	if s.state.Active < 0 || s.state.Tokens < 0 {
		panic("agent: a slot was given back twice")
	}
	s.state.Seq++
	s.history.add(o, now)
	switch o {
	case succeeded:
		s.counts.Succeeded++
	case clientError:
		s.counts.ClientErrors++
	case cancelled:
		s.counts.Cancelled++
	default:
		s.counts.Failed++
	}
	s.counts.PromptTokens += uint64(max(u.Prompt, 0))
	s.counts.CompletionTokens += uint64(max(u.Completion, 0))
	s.counts.CachedTokens += uint64(max(u.Cached, 0))
	s.mu.Unlock()
	s.changed()
}

// outcome is how a request ended, as far as the engine is concerned.
type outcome int

const (
	failed outcome = iota
	succeeded
	clientError // a 4xx: it says nothing about the engine
	cancelled   // by the caller: neither
	refusedBusy // by the engine, with a 429: counted as failed, yet no sign that it is ill
)

// update changes the agent's condition and its status with it.
func (s *slots) update(f func(*slots)) {
	s.mu.Lock()
	before := s.state
	f(s)
	switch {
	case s.draining:
		s.state.Status = bus.StatusDraining
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

func (s *slots) snapshot() (bus.State, bus.AgentCounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.counts
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

func (s *slots) now() bus.State { st, _ := s.snapshot(); return st }

func (s *slots) active() int { return s.now().Active }
