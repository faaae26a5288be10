package bus_test

import (
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestResendAfterEnd: an answer that has ended can be asked for again until its end
// is acknowledged, and is forgotten then (invariants 6 and 10).
func TestResendAfterEnd(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Hour, stream(pattern(30), 10, 0))
		defer w.stop()
		r := w.rawCaller("raw", bus.Header{bus.HeaderWindow: {"65536"}})
		time.Sleep(500 * time.Millisecond)
		j := w.first()
		kinds := []bus.Kind{bus.KindHead, bus.KindData, bus.KindData, bus.KindEnd}
		check := func(when string, from int) {
			t.Helper()
			msgs := r.take()
			for i, kind := range kinds {
				want := 0
				if i+1 >= from {
					want = 1
				}
				if got := frames(j, msgs, kind, uint64(i+1)); got != want {
					t.Errorf("%s: frame %d came %d times, want %d", when, i+1, got, want)
				}
			}
		}
		check("at first", 1)
		r.say("resend.1")
		time.Sleep(50 * time.Millisecond)
		check("all again", 1)
		r.say("ack.2")
		r.say("resend.1") // is not kept any more
		time.Sleep(50 * time.Millisecond)
		check("what was acknowledged", 5)
		r.say("resend.3")
		time.Sleep(50 * time.Millisecond)
		check("the rest", 3)
		r.say("ack.4")
		w.settle(time.Second)
		r.leave()
	})
}

// TestLinger: an end that nobody acknowledges is kept for a while, and no longer.
func TestLinger(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Hour, stream(pattern(30), 10, 0))
		defer w.stop()
		r := w.rawCaller("raw", bus.Header{bus.HeaderWindow: {"65536"}})
		time.Sleep(bus.LingerFor - time.Second)
		if w.responder.Streams() != 1 {
			t.Error("the answer was forgotten too early")
		}
		time.Sleep(2 * time.Second)
		w.settle(time.Second)
		r.leave()
	})
}
