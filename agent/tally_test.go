package agent

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// newLife makes an agent of the id "a" that has not started.
func newLife(t *testing.T, link *bus.Link) *Agent {
	t.Helper()
	cfg := Default()
	cfg.ID, cfg.EngineURL, cfg.Log = "a", "http://127.0.0.1:1", slog.New(slog.DiscardHandler)
	a, err := New(cfg, link)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *Agent) end(o outcome) {
	a.slots.count(func(t *tally) { t.add(ending{outcome: o, usage: bus.Usage{Prompt: 3}}) })
}

// Whatever order the agents of one id count, save, stop and crash in, and whichever
// answers to their writes are lost, the document holds everything that was saved, once.
func TestCountersOfOneID(t *testing.T) {
	for seed := range uint64(8) {
		bustest.Bubble(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			b := bustest.NewBus(t, t.TempDir())
			defer b.Stop()
			link := b.NewWire().Link(t, "agent", slog.New(slog.DiscardHandler))
			defer link.Close()
			ctx := context.Background()
			lives := []*Agent{newLife(t, link), newLife(t, link), newLife(t, link)}
			pending := make([][numOutcomes]uint64, len(lives))
			var want [numOutcomes]uint64
			saved := func(i int) {
				for o, n := range pending[i] {
					want[o] += n
				}
				pending[i] = [numOutcomes]uint64{}
			}
			for range 200 {
				i := r.IntN(len(lives))
				a := lives[i]
				switch p := r.IntN(20); {
				case p < 12:
					o := outcome(r.IntN(int(numOutcomes)))
					a.end(o)
					pending[i][o]++
				case p < 17:
					a.saveCounters(ctx)
					saved(i)
				case p < 18: // the write takes place, or not, and the answer is lost
					if (!a.book.read || a.book.unsure) && a.readBook(ctx) != nil {
						t.Fatal("can't read the counters")
					}
					counts, latencies := a.slots.counted()
					a.book.write++
					a.book.tried, a.book.unsure = counts, true
					if r.IntN(3) == 0 {
						break
					}
					writers := append([]bus.Writer{{Epoch: a.epoch, Write: a.book.write}}, a.book.writers...)
					_, err := link.PutCounters(ctx, bus.Counters{ID: "a", Counts: counts, Latencies: latencies, Writers: writers}, a.book.revision)
					switch {
					case err == nil:
						saved(i)
					case !errors.Is(err, bus.ErrChanged):
						t.Fatal(err)
					}
				case p < 19: // a crash
					lives[i], pending[i] = newLife(t, link), [numOutcomes]uint64{}
				default: // a stop
					a.saveCounters(ctx)
					saved(i)
					lives[i] = newLife(t, link)
				}
			}
			for i, a := range lives {
				a.saveCounters(ctx)
				saved(i)
			}
			doc, _, err := link.Counters(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			var all tally
			for o, n := range want {
				for range n {
					all.add(ending{outcome: outcome(o), usage: bus.Usage{Prompt: 3}})
				}
			}
			if !reflect.DeepEqual(doc.Counts, all.counts) {
				t.Errorf("seed %d: counters %+v, want %+v", seed, doc.Counts, all.counts)
			}
			// The next life goes on from there.
			next := newLife(t, link)
			if err := next.readBook(ctx); err != nil {
				t.Fatal(err)
			}
			if counts, _ := next.slots.counted(); !reflect.DeepEqual(counts, all.counts) {
				t.Errorf("seed %d: a new life counts from %+v, want %+v", seed, counts, all.counts)
			}
		})
	}
}

// Every failure has a class that the documentation names, and the sum of the classes
// is the number of failures.
func TestFailureClasses(t *testing.T) {
	var all tally
	for o := range numOutcomes {
		all.add(ending{outcome: o})
	}
	c := all.counts
	sum := uint64(0)
	for _, class := range bus.FailureClasses {
		if c.Failures[class] == 0 {
			t.Errorf("nothing counts as %s", class)
		}
		sum += c.Failures[class]
	}
	if sum != c.Failed || c.Succeeded != 1 || c.ClientErrors != 1 || c.Cancelled != 1 || c.Failed+3 != uint64(numOutcomes) {
		t.Errorf("%d failures are in classes, want all of %+v", sum, c)
	}
}

// The smoothed latencies are those of RFC 6298, and only good requests count.
func TestLatencies(t *testing.T) {
	near := func(what string, l *bus.Latency, ms, deviation float64) {
		t.Helper()
		if l == nil || math.Abs(l.MS-ms) > 1e-9 || math.Abs(l.VarMS-deviation) > 1e-9 {
			t.Errorf("%s is %+v, want %v ± %v ms", what, l, ms, deviation)
		}
	}
	var a tally
	a.add(ending{outcome: broken, ttft: time.Second, e2e: time.Hour})
	if a.latencies != (bus.Latencies{}) {
		t.Errorf("a failure counts: %+v", a.latencies)
	}
	a.add(ending{e2e: 40 * time.Millisecond}) // no stream
	near("e2e", a.latencies.E2E, 40, 20)
	if a.latencies.TTFT != nil || a.latencies.ITL != nil {
		t.Errorf("an answer that is no stream has %+v", a.latencies)
	}
	stream := ending{ttft: 80 * time.Millisecond, rest: 90 * time.Millisecond, e2e: 170 * time.Millisecond, usage: bus.Usage{Completion: 10}}
	a.add(stream)
	near("ttft", a.latencies.TTFT, 80, 40)
	near("itl", a.latencies.ITL, 10, 5)
	near("e2e", a.latencies.E2E, 40+130./8, 20+(130.-20)/4)
	stream.usage.Completion, stream.ttft = 1, 40*time.Millisecond
	a.add(stream) // one token has no time to the next
	near("ttft", a.latencies.TTFT, 75, 40)
	near("itl", a.latencies.ITL, 10, 5)
	before := *a.latencies.ITL
	kept := a.latencies.ITL
	a.latencies.ITL.Add(time.Second)
	if *kept != before {
		t.Error("a latency that was given away changed")
	}
}
