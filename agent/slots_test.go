package agent

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
				s.free(ending{outcome: succeeded, usage: bus.Usage{Prompt: 1}}, 7)
			}
		})
	}
	wg.Wait()
	state := s.now()
	counts, _ := s.counted()
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
		bus.NoteDraining:     func(s *slots) { s.order.Drain = true },
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

// TestCapacity: what operators ordered comes before what was configured, and that
// before what the engine states. A lower capacity cuts nothing.
func TestCapacity(t *testing.T) {
	s := readySlots(0)
	steps := []struct {
		change func(*slots)
		want   int
	}{
		{func(*slots) {}, defaultCapacity},
		{func(s *slots) { s.stated = 256 }, 256},
		{func(s *slots) { s.configured = 3 }, 3},
		{func(s *slots) { s.order.Capacity = 8 }, 8},
		{func(s *slots) { s.order.Capacity = 1 }, 1},
		{func(s *slots) { s.order.Capacity = 0 }, 3},
	}
	for i, step := range steps {
		s.update(step.change)
		if got := s.now().Capacity; got != step.want {
			t.Errorf("step %d: capacity %d, want %d", i, got, step.want)
		}
		if i == 3 {
			for range 8 {
				s.take("m", 1)
			}
		}
		if note := s.take("m", 1); i >= 3 && note != bus.NoteBusy || s.active() > 8 {
			t.Errorf("step %d: %s with %d active", i, note, s.active())
		} else if i < 3 {
			s.free(ending{outcome: succeeded}, 1)
		}
	}
}

// TestSlowStart: the capacity grows from one slot, and again after the engine was ill.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots("a", "e", 10)
		s.slow = 10 * time.Second
		models := map[string]bool{"m": true}
		for round := range 2 {
			s.update(func(s *slots) { s.healthy, s.models = true, models })
			for at, want := range []int{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10} {
				s.tick(time.Now())
				var r bus.Record
				s.describe(&r)
				if got := s.now().Capacity; got != want || (r.FullCapacity == 10) != (want < 10) {
					t.Errorf("round %d, after %d s: capacity %d, full %d, want %d of 10", round, at, got, r.FullCapacity, want)
				}
				time.Sleep(time.Second)
			}
			s.update(func(s *slots) { s.healthy = false })
		}
	})
}

func TestSlotsTwice(t *testing.T) {
	s := readySlots(2)
	s.take("m", 7)
	s.free(ending{outcome: lost}, 7)
	defer func() {
		if recover() == nil {
			t.Error("invariant 3: a slot was given back twice without a word")
		}
	}()
	s.free(ending{outcome: lost}, 7)
}
