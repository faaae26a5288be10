package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// probe keeps the agent's condition true to its engine until ctx ends: ready after
// one good probe, down at once when it refuses connections and after a few probes
// without an answer, since a busy engine may be slow to answer.
func (a *Agent) probe(ctx context.Context) error {
	t := time.NewTicker(a.cfg.ProbeInterval)
	defer t.Stop()
	missed := 0
	var listed time.Time
	for {
		err := a.engine.health(ctx)
		if err == nil && (a.condition() != healthOK || time.Since(listed) > refreshEvery) {
			if err = a.discover(ctx); err == nil {
				listed = time.Now()
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			missed = 0
			a.setHealth(healthOK)
		default:
			missed++
			if missed >= probesToDown || refused(err) || a.condition() != healthOK {
				a.setHealth(reason(err))
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.suspect:
		case <-t.C:
		}
	}
}

const healthOK = "ok"

// reason says in a few words why the engine is not healthy.
func reason(err error) string {
	switch {
	case refused(err):
		return "the engine refuses connections"
	case errors.Is(err, context.DeadlineExceeded):
		return "the engine does not answer"
	}
	s := err.Error()
	return s[:min(len(s), 200)]
}

// discover reads what the engine serves.
func (a *Agent) discover(ctx context.Context) error {
	models, err := a.engine.models(ctx)
	if err != nil {
		return err
	}
	if a.cfg.Model != "" {
		i := slices.IndexFunc(models, func(m bus.Model) bool { return m.ID == a.cfg.Model })
		if i < 0 {
			return errors.New("the engine does not serve the model " + a.cfg.Model)
		}
		models = models[i : i+1]
	}
	version := a.engine.version(ctx)
	set := make(map[string]bool, len(models))
	for _, m := range models {
		set[m.ID] = true
	}
	a.mu.Lock()
	changed := a.record.EngineVersion != version || !slices.EqualFunc(a.record.Models, models, func(x, y bus.Model) bool {
		return x.ID == y.ID && string(x.Card) == string(y.Card)
	})
	a.record.Models, a.record.EngineVersion = models, version
	a.mu.Unlock()
	a.slots.update(func(s *slots) { s.models = set })
	if changed {
		names := make([]string, 0, len(models))
		for _, m := range models {
			names = append(names, m.ID)
		}
		a.log.Info("engine found", "models", names, "engine_version", version)
		a.beatNow(true)
	}
	return nil
}

func (a *Agent) condition() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.record.EngineHealth
}

func (a *Agent) setHealth(now string) {
	a.mu.Lock()
	before := a.record.EngineHealth
	a.record.EngineHealth = now
	a.mu.Unlock()
	if before == now {
		return
	}
	a.slots.update(func(s *slots) { s.healthy = now == healthOK })
	a.log.Info("engine health", "health", now)
	a.event("agent", map[string]any{"agent": a.cfg.ID, "engine_health": now})
	a.beatNow(true)
}

// doubt makes the next probe happen now: a request has just been refused a
// connection.
func (a *Agent) doubt(err error) {
	if refused(err) {
		a.setHealth(reason(err))
	}
	select {
	case a.suspect <- struct{}{}:
	default:
	}
}
