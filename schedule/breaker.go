package schedule

import (
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// A circuit breaker for each agent: after breakerFailures tries in a row that failed,
// the agent gets nothing for breakerRest; then one request probes it. Refusals,
// back-pressure, 4xx and cancels are neutral: they change nothing and free the probe.
const (
	breakerFailures = 5
	breakerRest     = 5 * time.Second
)

type breaker struct {
	failures int       // in a row
	until    time.Time // closed to all before
	probing  string    // the attempt that probes, "" if none
}

// admits reports whether a request may go through.
func (b *breaker) admits(now time.Time) bool {
	return b.failures < breakerFailures || b.probing == "" && !now.Before(b.until)
}

// sent notes that an attempt goes through.
func (b *breaker) sent(attempt string) {
	if b.failures >= breakerFailures {
		b.probing = attempt
	}
}

// failed notes that an attempt failed for a reason that is the agent's.
func (b *breaker) failed(attempt string, now time.Time) {
	b.neutral(attempt)
	if b.failures++; b.failures >= breakerFailures {
		b.until = now.Add(breakerRest)
	}
}

// succeeded notes that an attempt brought an answer.
func (b *breaker) succeeded(attempt string) {
	b.neutral(attempt)
	b.failures = 0
}

// neutral notes that an attempt ended without saying anything of the agent's health.
func (b *breaker) neutral(attempt string) {
	if b.probing == attempt {
		b.probing = ""
	}
}

// note takes what an agent says of an attempt.
func (b *breaker) note(n bus.AttemptNote) {
	switch n.Note {
	case bus.NoteGood:
		b.succeeded(n.Attempt)
	case bus.NoteEnd:
		b.neutral(n.Attempt)
	}
}

// budget bounds the retries of a scheduler to a share of its requests, so that an
// outage does not multiply the load: each request brings retryShare of a retry, and
// retryFloor come each second whatever the traffic.
type budget struct {
	left float64
	at   time.Time
}

const (
	retryShare = 0.2
	retryFloor = 10.0  // a second
	retryMost  = 100.0 // saved up
)

// request notes one request.
func (b *budget) request() { b.left = min(b.left+retryShare, retryMost) }

// take takes one retry, if there is one left.
func (b *budget) take(now time.Time) bool {
	if b.at.IsZero() {
		b.left = retryMost
	} else {
		b.left = min(b.left+retryFloor*now.Sub(b.at).Seconds(), retryMost)
	}
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
