package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// Timings of the looks at an engine's metrics.
const (
	minMetricsInterval = 50 * time.Millisecond
	maxMetricsInterval = 4 * time.Second  // shorter than signalsFor, so that nothing is stale between two looks
	noMetricsWait      = 30 * time.Second // until an engine that has none is asked again
)

// errNoMetrics tells that an engine answers, and has no page that can be used.
var errNoMetrics = errors.New("the engine has no metrics that can be used")

// watchEngine measures the engine until ctx ends. A look that fails changes nothing:
// what was measured before becomes stale by itself.
func (a *Agent) watchEngine(ctx context.Context) error {
	var s scanner
	var p enginePage
	var w window
	t := time.NewTicker(a.cfg.MetricsInterval)
	defer t.Stop()
	var rest time.Time // do not ask before
	said := false
	for {
		if now := time.Now(); !now.Before(rest) {
			err := a.engine.metrics(ctx, &s, &p, a.metricsTimeout())
			now = time.Now()
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				said = false
				a.setMeasured(measured{
					at: now, values: p.signals(w.add(&p, now), now), cacheTokens: p.cacheTokens, blockSize: int(p.blockSize), caching: p.caching,
					asleep: p.asleep,
				})
			case errors.Is(err, errNoMetrics):
				rest = now.Add(noMetricsWait)
				w.forget()
				a.setMeasured(measured{})
				fallthrough
			default:
				if !said && a.condition() == bus.HealthOK {
					said = true
					a.log.Info("engine is not measured", "err", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func (a *Agent) setMeasured(m measured) {
	a.mu.Lock()
	turned := a.measured.asleep != m.asleep
	a.measured = m
	a.mu.Unlock()
	if turned {
		signal(a.suspect)
	}
}

// sleeps reports whether the engine's metrics lately said that it sleeps.
func (a *Agent) sleeps() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.measured.asleep && time.Since(a.measured.at) <= signalsFor
}

// metricsTimeout is how long a look may take. A busy engine is slow to answer, so it
// is a second even if looks are more frequent, and then some are left out.
func (a *Agent) metricsTimeout() time.Duration {
	return min(max(a.cfg.MetricsInterval, time.Second), 2*time.Second)
}

// metrics reads the engine's metrics into p.
func (e *engineClient) metrics(ctx context.Context, s *scanner, p *enginePage, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/metrics", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/plain") // and not OpenMetrics
	e.authorize(req.Header)
	resp, err := e.probes.Do(req)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("read metrics: /metrics answers %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: /metrics answers %d", errNoMetrics, resp.StatusCode)
	}
	if err := s.scan(resp.Body, p); err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	if p.samples == 0 {
		return errNoMetrics
	}
	return nil
}
