package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// watch is the state machine of an engine's health. It is owned by the goroutine that
// probes.
type watch struct {
	failures int // in a row after which the engine counts as ill
	warmup   time.Duration

	missed int
	ready  time.Time // when the engine was first found well
}

// probed is one probe: when it began, what it came to, and whether the engine sent
// anything meanwhile, or had never answered a request when it ended.
type probed struct {
	now   time.Time
	err   error
	heard bool // a byte of an answer came since the probe began
	cold  bool // no request has been answered by the engine yet
}

// next is the health after a probe. Well after one good probe. Down at once when the
// engine refuses connections, which it does not do because it is busy. A probe without
// an answer counts only if nothing at all came from the engine meanwhile, and not while
// its first request makes it compile; enough of them in a row make it unresponsive.
func (w *watch) next(before bus.Health, p probed) bus.Health {
	silent := timedOut(p.err)
	switch {
	case p.err == nil:
		w.missed = 0
		if w.ready.IsZero() {
			w.ready = p.now
		}
		return bus.HealthOK
	case refused(p.err):
		w.missed = w.failures
		return bus.HealthDown
	case errors.Is(p.err, engine.ErrAsleep):
		w.missed = w.failures
		return bus.HealthAsleep
	case errors.Is(p.err, engine.ErrLoading):
		w.missed = w.failures
		return bus.HealthStarting
	case silent && p.heard:
		return before
	case silent && p.cold && before == bus.HealthOK && p.now.Sub(w.ready) < w.warmup:
		return before
	}
	w.missed = min(w.missed+1, w.failures)
	switch {
	case w.missed < w.failures && before == bus.HealthOK:
		return before
	case w.ready.IsZero() && silent:
		return bus.HealthStarting
	case silent:
		return bus.HealthUnresponsive
	}
	return bus.HealthDown
}

// doubtful reports whether the engine is neither surely well nor surely ill: the next
// probe comes sooner.
func (w *watch) doubtful() bool { return w.missed > 0 && w.missed < w.failures }

// probesAfterDoubt is how many probes fit in the time of one while the engine's health
// is in doubt.
const probesAfterDoubt = 4

// probe keeps the agent's condition true to its engine until ctx ends.
func (a *Agent) probe(ctx context.Context) error {
	w := watch{failures: a.cfg.ProbeFailures, warmup: a.cfg.Warmup}
	var listed time.Time
	for {
		began := time.Now()
		kind, err := a.engine.find(ctx)
		if err == nil {
			err = kind.Health(ctx, a.engine)
		}
		if again := a.relist.Swap(false); err == nil && (again || a.condition() != bus.HealthOK || time.Since(listed) > refreshEvery) {
			if err = a.discover(ctx, kind); err == nil {
				listed = time.Now()
			}
		}
		if err == nil && a.sleeps() {
			err = engine.ErrAsleep
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		a.setHealth(w.next(a.condition(), probed{
			now: time.Now(), err: err, heard: a.heard.since(began), cold: a.heard.never(),
		}), err)
		pause := a.cfg.ProbeInterval
		if w.doubtful() {
			pause /= probesAfterDoubt
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.suspect:
		case <-time.After(max(pause-time.Since(began), pause/10)):
		}
	}
}

// heard is when the engine last sent a byte of an answer, in unix nanoseconds.
type heard struct{ at atomic.Int64 }

func (h *heard) now(ns int64)           { h.at.Store(ns) }
func (h *heard) never() bool            { return h.at.Load() == 0 }
func (h *heard) since(t time.Time) bool { return h.at.Load() > t.UnixNano() }

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

// reason says in a few words why the engine is not healthy.
func reason(err error) string {
	switch {
	case err == nil:
		return ""
	case refused(err):
		return "the engine refuses connections"
	case timedOut(err):
		return "the engine does not answer"
	}
	s := err.Error()
	return s[:min(len(s), 200)]
}

// discover reads what the engine serves.
func (a *Agent) discover(ctx context.Context, kind *engine.Kind) error {
	models, err := kind.Models(ctx, a.engine)
	if err != nil {
		return err
	}
	if a.cfg.Model != "" {
		i := slices.IndexFunc(models, func(m bus.Model) bool { return m.ID == a.cfg.Model })
		if i < 0 {
			return fmt.Errorf("the engine does not serve the model %s", a.cfg.Model)
		}
		models = models[i : i+1]
	}
	a.mu.Lock()
	withheld := a.adapters.withheld
	a.mu.Unlock()
	models = slices.DeleteFunc(models, func(m bus.Model) bool { return withheld[m.ID] })
	info := kind.Info(ctx, a.engine)
	if info.Asleep {
		return engine.ErrAsleep
	}
	apis := info.APIs
	if apis == nil {
		apis = kind.APIs
	}
	set := make(map[string]bool, len(models))
	for _, m := range models {
		set[m.ID] = true
	}
	a.mu.Lock()
	changed := a.record.Engine != kind.Name || a.record.EngineVersion != info.Version || !slices.EqualFunc(a.record.Models, models, func(x, y bus.Model) bool {
		return x.ID == y.ID && string(x.Card) == string(y.Card)
	})
	a.record.Models, a.record.Engine, a.record.EngineVersion, a.record.APIs = models, kind.Name, info.Version, apis
	a.record.EngineCapacity, a.record.CacheTokens = max(info.Capacity, 0), info.CacheTokens
	a.record.CacheBlockSize, a.record.PrefixCaching = info.BlockSize, info.PrefixCaching
	a.mu.Unlock()
	a.slots.update(func(s *slots) { s.models, s.stated = set, max(info.Capacity, 0) })
	if changed {
		names := make([]string, 0, len(models))
		for _, m := range models {
			names = append(names, m.ID)
		}
		a.log.Info("engine found", "engine", kind.Name, "engine_version", info.Version, "models", names)
		a.beatNow(true)
	}
	return nil
}

func (a *Agent) condition() bus.Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.record.EngineHealth
}

// setHealth says how the engine is; err is what the last probe came to.
func (a *Agent) setHealth(now bus.Health, err error) {
	why := ""
	if now != bus.HealthOK {
		why = reason(err)
	}
	a.mu.Lock()
	before, said := a.record.EngineHealth, a.record.EngineReason
	a.record.EngineHealth, a.record.EngineReason = now, why
	a.mu.Unlock()
	if before == now {
		if said != why {
			a.beatNow(true)
		}
		return
	}
	a.slots.update(func(s *slots) { s.healthy = now == bus.HealthOK })
	if now == bus.HealthDown {
		a.engine.forget()
	}
	if before == bus.HealthOK && (now == bus.HealthDown || now == bus.HealthUnresponsive) {
		a.slots.count(func(t *tally) { t.counts.EngineFailures++ })
	}
	a.log.Info("engine health", "health", now, "reason", why)
	a.event("agent", map[string]any{"agent": a.cfg.ID, "engine_health": now, "engine_reason": why})
	a.beatNow(true)
}

// doubt makes the next probe happen now: a request has just failed at the engine. One
// that was refused a connection needs no probe to know.
func (a *Agent) doubt(err error) {
	if refused(err) {
		a.setHealth(bus.HealthDown, err)
	}
	signal(a.suspect)
}
