package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// TestWatch walks the state machine of an engine's health.
func TestWatch(t *testing.T) {
	refusal := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	silence := fmt.Errorf("get: %w", context.DeadlineExceeded)
	ill := errors.New("/health answers 500")
	type step struct {
		probed
		want bus.Health
	}
	good, bad := step{want: bus.HealthOK}, func(err error, want bus.Health) step { return step{probed{err: err}, want} }
	cold := func(want bus.Health) step { return step{probed{err: silence, cold: true}, want} }
	cases := map[string][]step{
		"refused at once, well after one good probe": {good, bad(refusal, bus.HealthDown), good},
		"three answers that are bad":                 {good, bad(ill, bus.HealthOK), bad(ill, bus.HealthOK), bad(ill, bus.HealthDown), good},
		"a good one between":                         {good, bad(ill, bus.HealthOK), bad(ill, bus.HealthOK), good, bad(ill, bus.HealthOK), bad(ill, bus.HealthOK), bad(ill, bus.HealthDown)},
		"three without an answer":                    {good, bad(silence, bus.HealthOK), bad(silence, bus.HealthOK), bad(silence, bus.HealthUnresponsive), good},
		"busy with others, for ever": {
			good, step{probed{err: silence, heard: true}, bus.HealthOK}, step{probed{err: silence, heard: true}, bus.HealthOK},
			step{probed{err: silence, heard: true}, bus.HealthOK}, step{probed{err: silence, heard: true}, bus.HealthOK},
		},
		"compiles for its first request": {good, cold(bus.HealthOK), cold(bus.HealthOK), cold(bus.HealthOK), cold(bus.HealthOK), good},
		"compiles for too long": {
			good, cold(bus.HealthOK), step{probed{err: silence, cold: true, now: begin.Add(2 * time.Minute)}, bus.HealthOK},
			step{probed{err: silence, cold: true, now: begin.Add(2 * time.Minute)}, bus.HealthOK},
			step{probed{err: silence, cold: true, now: begin.Add(2 * time.Minute)}, bus.HealthUnresponsive},
		},
		"not there yet":          {bad(silence, bus.HealthStarting), bad(silence, bus.HealthStarting), bad(silence, bus.HealthStarting), bad(silence, bus.HealthStarting), good},
		"not there, and refuses": {bad(refusal, bus.HealthDown), bad(refusal, bus.HealthDown), good},
		"loads":                  {bad(engine.ErrLoading, bus.HealthStarting), good, bad(engine.ErrLoading, bus.HealthStarting), good},
		"put to sleep":           {good, bad(engine.ErrAsleep, bus.HealthAsleep), bad(engine.ErrAsleep, bus.HealthAsleep), good},
		"from asleep to dead":    {good, bad(engine.ErrAsleep, bus.HealthAsleep), bad(refusal, bus.HealthDown), bad(silence, bus.HealthUnresponsive), good},
	}
	for name, steps := range cases {
		w := watch{failures: 3, warmup: time.Minute}
		health := bus.HealthStarting
		for i, s := range steps {
			if s.now.IsZero() {
				s.now = begin
			}
			if health = w.next(health, s.probed); health != s.want {
				t.Errorf("%s: after probe %d: %s, want %s", name, i+1, health, s.want)
				break
			}
			if health == bus.HealthOK && w.doubtful() != (w.missed > 0) {
				t.Errorf("%s: after probe %d: doubtful is %v", name, i+1, w.doubtful())
			}
		}
	}
}

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
