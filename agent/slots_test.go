package agent

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

func readySlots(capacity int) *slots {
	s := newSlots("a", "e", capacity)
	s.update(func(s *slots) { s.healthy, s.models = true, map[string]bool{"m": true} })
	return s
}

// However many ask at one time, the count is never above the capacity (invariant
// 2) and ends at exactly 0 (invariant 3).
func TestSlotsConcurrent(t *testing.T) {
	const capacity = 7
	s := readySlots(capacity)
	var running, most, served atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2000 {
				if s.take("m", 7) != bus.NoteAccepted {
					continue
				}
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				served.Add(1)
				running.Add(-1)
				s.free(succeeded, bus.Usage{Prompt: 1}, 7)
			}
		})
	}
	wg.Wait()
	state, counts := s.snapshot()
	if most.Load() > capacity || state.Active != 0 || state.Tokens != 0 {
		t.Errorf("invariants 2, 3: at most %d of %d were taken, %d are left, and %d tokens", most.Load(), capacity, state.Active, state.Tokens)
	}
	if counts.Succeeded != uint64(served.Load()) || counts.PromptTokens != counts.Succeeded || counts.Refused != 32000-counts.Succeeded {
		t.Errorf("counts %+v for %d served", counts, served.Load())
	}
}

// A refusal says why (invariant 4).
func TestSlotsRefuse(t *testing.T) {
	cases := map[bus.Note]func(*slots){
		bus.NoteDraining:     func(s *slots) { s.draining = true },
		bus.NoteNotReady:     func(s *slots) { s.healthy = false },
		bus.NoteUnknownModel: func(s *slots) { s.models = map[string]bool{"other": true} },
		bus.NoteBusy:         func(s *slots) { s.state.Active = s.state.Capacity },
	}
	for want, change := range cases {
		s := readySlots(2)
		s.update(change)
		before := s.active()
		if got := s.take("m", 7); got != want || s.active() != before {
			t.Errorf("got %s, want %s; %d active", got, want, s.active())
		}
	}
}

func TestSlotsTwice(t *testing.T) {
	s := readySlots(2)
	s.take("m", 7)
	s.free(failed, bus.Usage{}, 7)
	defer func() {
		if recover() == nil {
			t.Error("invariant 3: a slot was given back twice without a word")
		}
	}()
	s.free(failed, bus.Usage{}, 7)
}
