package agent

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// outcome is how a request ended, as far as the engine is concerned.
type outcome uint8

const (
	succeeded   outcome = iota
	clientError         // a 4xx: it says nothing about the engine
	cancelled           // by the caller: neither

	// The rest are failures.
	tooMany // 429: no sign that the engine is ill
	unavailable
	engineError // another 5xx
	unconnected // no connection was taken
	lost        // before the first byte
	broken      // within the answer
	late
	silent
	cut
	numOutcomes
)

// failureClass is the class of an outcome in the counters; what is no failure has none.
var failureClass = [numOutcomes]string{
	tooMany: "busy", unavailable: "busy", engineError: "engine_error", unconnected: "refused", lost: "lost", broken: "broken",
	late: "deadline", silent: "idle", cut: "cut",
}

// outcomeOf is what a failure before the first byte counts as.
func outcomeOf(class bus.Class, status int) outcome {
	switch {
	case status == 429:
		return tooMany
	case class == bus.ClassBusy:
		return unavailable
	case class == bus.ClassEngineError:
		return engineError
	case class == bus.ClassRefused:
		return unconnected
	}
	return lost
}

// outcomeOfCause is what a request counts as that the agent itself ended.
func outcomeOfCause(r bus.Reason) outcome {
	switch r {
	case bus.ReasonDeadline:
		return late
	case bus.ReasonIdle:
		return silent
	case bus.ReasonDraining:
		return cut
	}
	return lost
}

// ending is how a request ended, what it used, and how long it took if that is known.
type ending struct {
	outcome outcome
	usage   bus.Usage
	ttft    time.Duration // of a stream
	rest    time.Duration // of a stream, behind its first byte
	e2e     time.Duration
}

// tally are the lifetime counters. The lock of the slots guards it.
type tally struct {
	counts    bus.AgentCounts
	latencies bus.Latencies
}

func (t *tally) add(e ending) {
	c := &t.counts
	switch class := failureClass[e.outcome]; {
	case class != "":
		c.Failed++
		once(&c.Failures, class)
	case e.outcome == clientError:
		c.ClientErrors++
	case e.outcome == cancelled:
		c.Cancelled++
	default:
		c.Succeeded++
		t.time(e)
	}
	c.PromptTokens += uint64(max(e.usage.Prompt, 0))
	c.CompletionTokens += uint64(max(e.usage.Completion, 0))
	c.CachedTokens += uint64(max(e.usage.Cached, 0))
}

// time takes the times of a request that went well.
func (t *tally) time(e ending) {
	l := &t.latencies
	if e.ttft > 0 {
		l.TTFT = l.TTFT.Add(e.ttft)
		if e.usage.Completion > 1 {
			l.ITL = l.ITL.Add(e.rest / time.Duration(e.usage.Completion-1))
		}
	}
	if e.e2e > 0 {
		l.E2E = l.E2E.Add(e.e2e)
	}
}

func (t *tally) refuse(note bus.Note) {
	t.counts.Refused++
	once(&t.counts.Refusals, string(note))
}

// once counts one of a class.
func once(m *map[string]uint64, key string) {
	if *m == nil {
		*m = make(map[string]uint64)
	}
	(*m)[key]++
}

// book is the agent's page in TB_COUNTERS. The goroutine that keeps the record owns it.
// Two processes of one id may write it at one time, such as an old one that drains and
// a new one: each adds what it counted itself.
type book struct {
	read     bool            // the page was read
	known    bus.AgentCounts // what is on it, as far as is known
	revision uint64
	write    uint64          // number of the last write that was tried
	tried    bus.AgentCounts // what it wrote
	unsure   bool            // whether it took place is not known
	writers  []bus.Writer    // that the page names
	models   int             // that the page names
}

// saveTries bounds how often counters are written anew because somebody else wrote them.
const saveTries = 4

// readBook reads the lifetime counters of this identity. What others wrote since they
// were last read is added to what the agent shows.
func (a *Agent) readBook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	doc, revision, err := a.link.Counters(ctx, a.cfg.ID)
	if err != nil {
		return err
	}
	b := &a.book
	if b.unsure && doc.Wrote(a.epoch) == b.write {
		b.known = b.tried // it took place
	}
	others := doc.Counts.Minus(b.known)
	first := !b.read
	b.read, b.known, b.revision, b.writers, b.unsure = true, doc.Counts, revision, doc.Writers, false
	a.slots.count(func(t *tally) {
		t.counts = t.counts.Plus(others)
		if first {
			t.restore(doc.Latencies)
		}
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range doc.Models {
		a.seen[m] = true
	}
	b.models = len(doc.Models)
	return nil
}

// restore takes the latencies of the last life where this one has none.
func (t *tally) restore(was bus.Latencies) {
	l := &t.latencies
	for _, x := range []struct{ now, was **bus.Latency }{{&l.TTFT, &was.TTFT}, {&l.ITL, &was.ITL}, {&l.E2E, &was.E2E}} {
		if *x.now == nil {
			*x.now = *x.was
		}
	}
}

// saveCounters writes the lifetime counters, if they changed. They are never written
// before those of the last life were read, which would lose them.
func (a *Agent) saveCounters(ctx context.Context) {
	b := &a.book
	if (!b.read || b.unsure) && a.readBook(ctx) != nil {
		return
	}
	for range saveTries {
		counts, latencies := a.slots.counted()
		a.mu.Lock()
		for _, m := range a.record.Models {
			a.seen[m.ID] = true
		}
		models := slices.Sorted(maps.Keys(a.seen))
		a.mu.Unlock()
		if reflect.DeepEqual(counts, b.known) && len(models) == b.models {
			return
		}
		b.write++
		b.tried, b.unsure = counts, true
		writers := append([]bus.Writer{{Epoch: a.epoch, Write: b.write}}, slices.DeleteFunc(slices.Clone(b.writers), func(w bus.Writer) bool { return w.Epoch == a.epoch })...)
		writers = writers[:min(len(writers), bus.MaxWriters)]
		revision, err := a.link.PutCounters(ctx, bus.Counters{
			ID: a.cfg.ID, Models: models, Counts: counts, Latencies: latencies, Saved: time.Now(), Writers: writers,
		}, b.revision)
		if err == nil {
			b.known, b.revision, b.writers, b.models, b.unsure = counts, revision, writers, len(models), false
			return
		}
		if !errors.Is(err, bus.ErrChanged) || a.readBook(ctx) != nil {
			return
		}
	}
}
