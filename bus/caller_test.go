package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

var framed = bus.Header{bus.HeaderWindow: {"65536"}}

// TestAckFrees: an acknowledgement frees the ring up to it, cumulatively; odd ones
// change nothing (invariant 10).
func TestAckFrees(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(j *job) {
			_ = j.head(pattern(1000))
			for range 9 {
				_ = j.Send(bus.KindData, nil, pattern(1000))
			}
			<-j.ctx.Done()
		})
		defer w.stop()
		raw := w.rawCaller("raw", framed)
		time.Sleep(20 * time.Millisecond)
		for _, step := range []struct {
			word   string
			frames int
		}{
			{"ack.0", 10}, {"ack.3", 7}, {"ack.2", 7}, {"ack.3", 7}, {"ack.11", 7}, {"ack.18446744073709551615", 7},
			{"ack", 7}, {"ack.x", 7}, {"nonsense.9", 7}, {"ack.9", 1}, {"ack.10", 0}, {"ack.10", 0},
		} {
			raw.say(step.word)
			time.Sleep(20 * time.Millisecond)
			if frames, n := w.first().Ring(); frames != step.frames || n != 1000*step.frames {
				t.Errorf("after %s: %d frames, %d bytes, want %d frames", step.word, frames, n, step.frames)
			}
		}
		raw.take()
		raw.say("resend.10") // it was acknowledged
		raw.say("resend.99")
		time.Sleep(20 * time.Millisecond)
		if msgs := raw.take(); len(msgs) != 0 {
			t.Errorf("%d frames were sent again", len(msgs))
		}
		raw.say("cancel")
		w.settle(time.Second)
	})
}

// TestEndedAttempt: while an end waits for its acknowledgement, keepalives tell of
// it; afterwards the agent says, if asked, that it knows nothing any more.
func TestEndedAttempt(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, stream(pattern(300), 100, 0))
		defer w.stop()
		raw := w.rawCaller("raw", framed)
		time.Sleep(bus.LingerFor / 2)
		j := w.first()
		if n := frames(j, raw.take(), bus.KindKeepalive, 4); n < 3 {
			t.Errorf("%d keepalives tell of the end", n)
		}
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := w.caller.Control.RequestWithContext(ctx, j.Control()+".ask", nil)
			return err
		}
		if ask() == nil {
			t.Error("the agent denies what it still keeps")
		}
		raw.say("ack.4")
		time.Sleep(20 * time.Millisecond)
		w.settle(0)
		if err := ask(); err != nil {
			t.Errorf("the agent does not say that it is over: %v", err)
		}
		if j.reason() != "" {
			t.Errorf("work that was done was cancelled: %s", j.reason())
		}
	})
}

// TestDeadCaller: a caller that is gone is known within a second, framed or bare,
// streaming or silent (invariant 8); one that listens and says nothing, after the
// limit.
func TestDeadCaller(t *testing.T) {
	quiet := func(j *job) { <-j.ctx.Done() }
	cases := map[string]struct {
		header bus.Header
		serve  func(*job)
	}{
		"framed, before the first byte": {framed, quiet},
		"framed, within its stream":     {framed, stream(pattern(10<<10), 10, 10*time.Millisecond)},
		"bare, before the first byte":   {nil, quiet},
		"bare, within its stream": {nil, func(j *job) {
			for j.Raw(nil, []byte("x")) == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, time.Minute, c.serve)
				defer w.stop()
				raw := w.rawCaller("raw", c.header)
				time.Sleep(4 * time.Second)
				if r := w.first().reason(); r != "" {
					t.Fatalf("a caller that listens was given up: %s", r)
				}
				raw.leave()
				w.flush()
				time.Sleep(time.Second)
				if r := w.first().reason(); r != bus.ReasonCancelled {
					t.Errorf("invariant 8: the work was not cancelled: %q", r)
				}
				w.settle(0)
			})
		})
	}
	t.Run("listens, but acknowledges nothing", func(t *testing.T) {
		bustest.Bubble(t, func(t *testing.T) {
			w := newWorld(t, time.Hour, quiet)
			defer w.stop()
			began := time.Now()
			w.rawCaller("raw", framed)
			<-w.first().ctx.Done()
			checkBetween(t, "given up", time.Since(began), bus.SilentAfter, bus.SilentAfter+time.Second)
			w.settle(time.Second)
		})
	})
}

// TestBareWhole: a bare caller gets exactly one message; probes are not seen.
func TestBareWhole(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(j *job) {
			time.Sleep(10 * time.Second)
			_ = j.Raw(bus.Header{bus.HeaderStatus: {"200"}}, []byte("whole"))
		})
		defer w.stop()
		raw := w.rawCaller("raw", nil)
		time.Sleep(20 * time.Second)
		msgs := raw.take()
		if len(msgs) != 1 || string(msgs[0].Data) != "whole" || bus.FirstHeader(msgs[0].Header, bus.HeaderStatus) != "200" {
			t.Errorf("got %d messages: %v", len(msgs), msgs)
		}
		w.settle(0)
	})
}

// TestRunEnds: when the agent stops, what is open is cancelled.
func TestRunEnds(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(j *job) { <-j.ctx.Done() })
		call := w.start(t.Context(), nil)
		time.Sleep(time.Second)
		w.stopAgent()
		if r := w.first().reason(); r != bus.ReasonAgentLost {
			t.Errorf("cancelled for %q", r)
		}
		w.stop()
		_, err := drain(call)
		checkReason(t, err, bus.ReasonCancelled) // the client was closed, too
		call.Close()
	})
}
