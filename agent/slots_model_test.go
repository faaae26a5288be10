package agent

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// TestSlotsModel compares the slots with a plain count, over any run of requests
// and changes of the agent's condition: never over capacity (invariant 2), each
// slot given back once (invariant 3), each refusal with its reason (invariant 4).
func TestSlotsModel(t *testing.T) {
	outcomes := []outcome{engineError, broken, succeeded, clientError, cancelled, tooMany}
	rapid.Check(t, func(rt *rapid.T) {
		capacity := rapid.IntRange(1, 5).Draw(rt, "capacity")
		s := newSlots("a", "e", capacity)
		changes := 0
		s.changed = func() { changes++ }
		var want bus.AgentCounts
		draining, healthy := false, false
		var taken []int64 // the tokens of each request that holds a slot
		failures, good, bad := 0, 0, 0
		models := map[string]bool{}
		seq := uint64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				model := rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "model")
				expect := bus.NoteAccepted
				switch {
				case draining:
					expect = bus.NoteDraining
				case !healthy:
					expect = bus.NoteNotReady
				case !models[model]:
					expect = bus.NoteUnknownModel
				case len(taken) == capacity:
					expect = bus.NoteBusy
				}
				before := changes
				tokens := rapid.Int64Range(0, 1<<41).Draw(rt, "tokens")
				if got := s.take(model, tokens); got != expect {
					rt.Fatalf("got %s, want %s", got, expect)
				}
				if expect == bus.NoteAccepted {
					taken = append(taken, tokens)
				} else {
					want.Refused++
					once(&want.Refusals, string(expect))
				}
				if (changes > before) != (expect == bus.NoteAccepted) {
					rt.Fatalf("%s: %d changes were said", expect, changes-before)
				}
			},
			"free": func(rt *rapid.T) {
				if len(taken) == 0 {
					rt.Skip("nothing is taken")
				}
				o := rapid.SampledFrom(outcomes).Draw(rt, "outcome")
				u := bus.Usage{Prompt: rapid.Int64Range(-5, 100).Draw(rt, "prompt"), Completion: 3, Cached: 1}
				i := rapid.IntRange(0, len(taken)-1).Draw(rt, "which")
				s.free(ending{outcome: o, usage: u}, taken[i])
				taken = slices.Delete(taken, i, i+1)
				switch o {
				case succeeded:
					failures, good = 0, good+1
				case engineError, broken:
					failures, bad = failures+1, bad+1
				}
				*map[outcome]*uint64{engineError: &want.Failed, broken: &want.Failed, succeeded: &want.Succeeded, clientError: &want.ClientErrors, cancelled: &want.Cancelled, tooMany: &want.Failed}[o]++
				if class := failureClass[o]; class != "" {
					once(&want.Failures, class)
				}
				want.PromptTokens += uint64(max(u.Prompt, 0))
				want.CompletionTokens += 3
				want.CachedTokens++
			},
			"condition": func(rt *rapid.T) {
				draining, healthy = rapid.Bool().Draw(rt, "draining"), rapid.Bool().Draw(rt, "healthy")
				models = map[string]bool{}
				for _, m := range []string{"m", "n"} {
					if rapid.Bool().Draw(rt, m) {
						models[m] = true
					}
				}
				s.update(func(s *slots) { s.order.Drain, s.healthy, s.models = draining, healthy, models })
			},
			"": func(rt *rapid.T) {
				state := s.now()
				counts, _ := s.counted()
				if state.Active != len(taken) || len(taken) > capacity || !reflect.DeepEqual(counts, want) {
					rt.Fatalf("invariants 2 and 3: %d active of %d, want %d; counts %+v, want %+v", state.Active, capacity, len(taken), counts, want)
				}
				sum := int64(0)
				for _, n := range taken {
					sum += n
				}
				if state.Tokens != sum {
					rt.Fatalf("invariant 3: %d tokens of %d requests, want %d", state.Tokens, len(taken), sum)
				}
				signals := map[string]float64{signalFailures: float64(failures)}
				if good+bad > 0 {
					signals[signalSuccess] = float64(good) / float64(good+bad)
				}
				if got := s.signals(time.Now()); !maps.Equal(got, signals) {
					rt.Fatalf("signals %v, want %v", got, signals)
				}
				status := bus.StatusReady
				if draining {
					status = bus.StatusDraining
				} else if len(models) == 0 {
					status = bus.StatusStarting
				}
				if state.Status != status || state.Capacity != capacity || state.ID != "a" || state.Epoch != "e" {
					rt.Fatalf("state %+v, want status %s", state, status)
				}
				if state.Seq < seq {
					rt.Fatalf("seq went from %d to %d", seq, state.Seq)
				}
				seq = state.Seq
			},
		})
	})
}
