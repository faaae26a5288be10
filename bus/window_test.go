package bus_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestWindow: a caller that does not read stops the sender at its window, so the
// ring stays bounded; reading lets it go on, and nothing is lost (invariants 6 and
// 10).
func TestWindow(t *testing.T) {
	const chunk = 4 << 10
	body := pattern(1 << 20)
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, stream(body, chunk, 0))
		defer w.stop()
		call := w.start(t.Context(), nil)
		time.Sleep(20 * time.Second) // longer than acknowledgements may stop
		j := w.first()
		sent := j.Bytes()
		if sent < bus.DefaultWindow || sent > bus.DefaultWindow+chunk {
			t.Errorf("invariant 10: %d bytes were sent into a window of %d", sent, bus.DefaultWindow)
		}
		if frames, n := j.Ring(); n > bus.DefaultWindow+chunk || frames > bus.MaxRingFrames {
			t.Errorf("invariant 10: the ring holds %d bytes in %d frames", n, frames)
		}
		if j.reason() != "" {
			t.Errorf("the work was cancelled: %s", j.reason())
		}
		got, err := drain(call)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("invariant 6: %s: %v", firstDifference(got, body), err)
		}
		if end := call.End(); end == nil || end.Bytes != int64(len(body)) || !end.HasUsage || end.Usage != (bus.Usage{Prompt: 1, Completion: 2}) {
			t.Errorf("end %+v", end)
		}
		call.Close()
		w.settle(time.Second)
	})
}

// TestRingBound: the ring is bounded in bytes and in frames, whatever the sizes of
// the chunks and of the window that is asked for (invariant 10).
func TestRingBound(t *testing.T) {
	cases := map[string]struct {
		offer, window string
		chunk, total  int
	}{
		"tiny frames":    {"1048576", "1048576", 1, 6000},
		"huge frames":    {"16384", "16384", 60 << 10, 240 << 10},
		"window too low": {"1", "16384", 1 << 10, 64 << 10},
		"window too big": {"999999999", "1048576", 64 << 10, 2 << 20},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, time.Hour, stream(pattern(c.total), c.chunk, 0))
				defer w.stop()
				raw := w.rawCaller("raw", bus.Header{bus.HeaderWindow: {c.offer}})
				time.Sleep(3 * time.Second)
				j := w.first()
				frames, n := j.Ring()
				window := atoi(t, c.window)
				if n >= window+c.chunk || frames > bus.MaxRingFrames {
					t.Errorf("invariant 10: %d bytes in %d frames are kept, the window is %d", n, frames, window)
				}
				if int(j.Bytes()) == c.total {
					t.Error("the sender was not stopped")
				}
				raw.say("cancel")
				w.settle(time.Second)
			})
		})
	}
}

// TestSlowCaller: a caller that leaves its window full is cut after the limit and
// told so after what it was sent; one that is only slow is not.
func TestSlowCaller(t *testing.T) {
	const stall = 5 * time.Second
	body := pattern(512 << 10)
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, stall, stream(body, 8<<10, 0))
		defer w.stop()
		began := time.Now()
		call := w.start(t.Context(), nil)
		for w.first().reason() == "" {
			if time.Since(began) > time.Minute {
				t.Fatal("the caller was not cut")
			}
			time.Sleep(10 * time.Millisecond)
		}
		checkBetween(t, "cut", time.Since(began), stall, stall+time.Second)
		if r := w.first().reason(); r != bus.ReasonSlowCaller {
			t.Errorf("cut for %s", r)
		}
		got, err := drain(call)
		checkReason(t, err, bus.ReasonSlowCaller)
		if len(got) < bus.DefaultWindow || !bytes.HasPrefix(body, got) {
			t.Errorf("before the error: %s", firstDifference(got, body))
		}
		if call.End() != nil || call.Complete() != nil {
			t.Error("invariant 6: the answer looks complete")
		}
		call.Close()
		w.settle(time.Second)

		call = w.start(t.Context(), nil)
		got = nil
		for {
			p, err := call.Read()
			got = append(got, p...)
			if err != nil {
				break
			}
			time.Sleep(400 * time.Millisecond) // 64 reads: half a minute, but half a window within the limit
		}
		if call.End() == nil || !bytes.Equal(got, body) {
			t.Errorf("a slow reader: %s", firstDifference(got, body))
		}
		call.Close()
		w.settle(time.Second)
	})
}

// TestIdleStream: a stream that is silent for long is kept alive from both sides.
func TestIdleStream(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Second, func(j *job) {
			_ = j.head([]byte("a"))
			time.Sleep(time.Hour)
			_ = j.end([]byte("b"))
		})
		defer w.stop()
		call := w.start(t.Context(), nil)
		if got, err := drain(call); err != nil || string(got) != "ab" {
			t.Errorf("got %q, %v", got, err)
		}
		call.Close()
		w.settle(time.Second)
		if s := w.client.Stats(); s.Resubmits != 0 || s.Resends != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}
