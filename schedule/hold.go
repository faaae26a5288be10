package schedule

import (
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// holds reports whether a request may wait although nobody can serve it now: its model
// was served before, and may be again soon (scale from zero, a rolling update).
func (s *Scheduler) holds(t *ticket, verdict policy.Verdict, now time.Time) bool {
	if s.cfg.HoldTimeout == 0 || t.failure != nil || verdict != policy.NoModel && verdict != policy.NoHealthy || !s.fleet.known[t.model] {
		return false
	}
	if t.waitedFor(now) >= s.cfg.HoldTimeout {
		return false
	}
	if last, ok := s.woken[t.model]; !ok || now.Sub(last) >= wakeEvery {
		s.woken[t.model] = now
		s.counters.Wakes++
		s.link.PublishJSON(bus.EventSubject("wake", t.model), Wake{Model: t.model, Waiting: s.waiting.Depth(t.model) + 1, Time: now})
	}
	return true
}

// wakeEvery is how often the wake event of a model is said while requests are held.
const wakeEvery = 5 * time.Second

// Wake is the event that says that requests wait for a model that no agent serves.
type Wake struct {
	Model   string    `json:"model"`
	Waiting int       `json:"waiting"`
	Time    time.Time `json:"time"`
}

// drain is how fast the queue of a model moves.
type drain struct {
	last time.Time
	gap  float64 // smoothed seconds between two requests that leave it
}

// drained notes that a request left the queue of a model to be served.
func (s *Scheduler) drained(model string, now time.Time) {
	d := s.drains[model]
	if d == nil {
		if len(s.drains) >= maxDrains {
			clear(s.drains)
		}
		d = &drain{}
		s.drains[model] = d
	}
	if !d.last.IsZero() {
		gap := min(now.Sub(d.last).Seconds(), maxRetry.Seconds())
		if d.gap == 0 {
			d.gap = gap
		}
		d.gap += (gap - d.gap) / 8
	}
	d.last = now
}

const maxDrains = 4096

// drainTime is when a request that finds the queue full should come again: how long
// those that wait take to leave, at the rate of the last ones.
func (s *Scheduler) drainTime(model string) time.Duration {
	gap := 1.0
	if d := s.drains[model]; d != nil && d.gap > 0 {
		gap = d.gap
	}
	wait := time.Duration(gap * float64(s.waiting.Depth(model)) * float64(time.Second))
	return min(max(wait, time.Second), maxRetry)
}

// maxRetry bounds what a caller is told to wait.
const maxRetry = time.Minute
