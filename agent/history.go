package agent

import (
	"math"
	"sync/atomic"
	"time"
)

// historySeconds is how far back finished requests count.
const historySeconds = 60

// history is how an agent's last requests ended. The lock of the slots guards it.
type history struct {
	began    time.Time
	seconds  [historySeconds]ended // by the second, modulo their number
	failures int                   // since the last success
}

// ended counts the requests that ended within one second.
type ended struct {
	second    int64 // since the history began
	good, bad uint32
}

func (h *history) add(o outcome, now time.Time) {
	if o != succeeded && o != failed {
		return
	}
	second := int64(now.Sub(h.began) / time.Second)
	e := &h.seconds[second%historySeconds]
	if e.second != second {
		*e = ended{second: second}
	}
	if o == succeeded {
		e.good++
		h.failures = 0
	} else {
		e.bad++
		h.failures++
	}
}

// successRate is the share of the finished requests that succeeded; ok is false if
// none finished.
func (h *history) successRate(now time.Time) (rate float64, ok bool) {
	second := int64(now.Sub(h.began) / time.Second)
	var good, bad uint64
	for _, e := range h.seconds {
		if second-e.second < historySeconds {
			good += uint64(e.good)
			bad += uint64(e.bad)
		}
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
