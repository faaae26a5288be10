package agent

import (
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// historySeconds is how far back finished requests count.
const historySeconds = 60

// lastMinute keeps a value for each of the last historySeconds seconds. It begins with
// its first second.
type lastMinute[T any] struct {
	began   time.Time
	seconds [historySeconds]struct {
		number int64 // of the second, since it began
		value  T
	}
}

// second counts from the first one.
func (l *lastMinute[T]) second(now time.Time) int64 {
	if l.began.IsZero() {
		l.began = now
	}
	return int64(now.Sub(l.began) / time.Second)
}

// at gives the value of this second, to be changed.
func (l *lastMinute[T]) at(now time.Time) *T {
	n := l.second(now)
	e := &l.seconds[n%historySeconds]
	if e.number != n {
		var none T
		e.number, e.value = n, none
	}
	return &e.value
}

// all goes through the values that still count.
func (l *lastMinute[T]) all(now time.Time) iter.Seq[*T] {
	n := l.second(now)
	return func(yield func(*T) bool) {
		for i := range l.seconds {
			if e := &l.seconds[i]; n-e.number < historySeconds && !yield(&e.value) {
				return
			}
		}
	}
}

// history is how an agent's last requests ended. The lock of the slots guards it.
type history struct {
	last     lastMinute[ended]
	failures int // since the last success
}

// ended counts the requests that ended within one second.
type ended struct{ good, bad uint32 }

func (h *history) add(o outcome, now time.Time) {
	switch {
	case o == succeeded:
		h.last.at(now).good++
		h.failures = 0
	case failureClass[o] != "" && o != tooMany:
		h.last.at(now).bad++
		h.failures++
	}
}

// successRate is the share of the finished requests that succeeded; ok is false if
// none finished.
func (h *history) successRate(now time.Time) (rate float64, ok bool) {
	var good, bad uint64
	for e := range h.last.all(now) {
		good += uint64(e.good)
		bad += uint64(e.bad)
	}
	return float64(good) / float64(good+bad), good+bad > 0
}

// smoothed is a smoothed time from dispatch to first byte, in milliseconds. It goes
// down fast and up slowly: with R the newest time, SRTT is R at first, then
//
//	R < SRTT:  0.5·SRTT + 0.5·R
//	else:      0.875·SRTT + 0.125·R
//
// The second line is the smoothing of RFC 6298, section 2; the first lets an engine
// that has recovered be used again soon. What is no stream has its first byte when
// all of it is generated, and goes into the same number.
type smoothed struct{ bits atomic.Uint64 } // of a float64; 0 until there was a time

func (s *smoothed) add(d time.Duration) {
	r := float64(d) / float64(time.Millisecond)
	if r <= 0 {
		return
	}
	for {
		old := s.bits.Load()
		v := math.Float64frombits(old)
		switch {
		case old == 0:
			v = r
		case r < v:
			v = 0.5*v + 0.5*r
		default:
			v = 0.875*v + 0.125*r
		}
		if s.bits.CompareAndSwap(old, math.Float64bits(v)) {
			return
		}
	}
}

func (s *smoothed) get() (ms float64, ok bool) {
	b := s.bits.Load()
	return math.Float64frombits(b), b != 0
}
