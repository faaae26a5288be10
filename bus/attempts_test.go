package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestTwoAttempts: of two attempts of one request the later one counts until bytes
// have come, whatever the order in which they speak, and the other is cancelled
// (invariants 5 and 8).
func TestTwoAttempts(t *testing.T) {
	greet := func() { time.Sleep(200 * time.Millisecond) } // an attempt that says nothing is announced within this
	speak := func(j *job, text string) {
		if j.head([]byte(text)) == nil {
			greet()
			_ = j.end([]byte("."))
		}
	}
	cases := map[string]struct {
		play      func(first, second *job)
		want      string
		cancelled int // which of the two
	}{
		"the later one speaks": {func(_, second *job) {
			greet()
			speak(second, "2")
		}, "2.", 1},
		"both speak, the first late": {func(first, second *job) {
			greet()
			_ = second.head([]byte("2"))
			speak(first, "1")
			_ = second.end([]byte("."))
		}, "2.", 1},
		"the first has given bytes": {func(first, second *job) {
			_ = first.head([]byte("1"))
			greet()
			speak(second, "2")
			_ = first.end([]byte("."))
		}, "1.", 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, time.Minute, func(first *job) {
					second := first.w.attempt(first.m, "sched-1-2")
					defer second.Close()
					c.play(first, second)
				})
				defer w.stop()
				call := w.start(t.Context(), nil)
				if got, err := drain(call); err != nil || string(got) != c.want {
					t.Errorf("got %q, want %q: %v", got, c.want, err)
				}
				time.Sleep(time.Second)
				for i, j := range w.all() {
					if cancelled := j.reason() == bus.ReasonCancelled; cancelled != (i+1 == c.cancelled) {
						t.Errorf("attempt %d: cancelled %v, %q", i+1, cancelled, j.reason())
					}
				}
				call.Close()
				w.settle(time.Second)
			})
		})
	}
}

// TestEarlierAttemptStops: an attempt that another has overtaken is cancelled
// within a second, and its bytes are not mixed in. The tries are compared as
// numbers.
func TestEarlierAttemptStops(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, nil)
		defer w.stop()
		w.serve = func(one *job) {
			first, second := w.attempt(one.m, "sched-1-9"), w.attempt(one.m, "sched-1-10")
			defer first.Close()
			defer second.Close()
			_ = second.head([]byte("second "))
			kind := bus.KindHead
			for i := 0; first.ctx.Err() == nil && i < 100; i++ {
				_ = first.Send(kind, nil, []byte("first "))
				kind = bus.KindData
				time.Sleep(20 * time.Millisecond)
			}
			if first.reason() != bus.ReasonCancelled {
				t.Errorf("the earlier attempt was not cancelled: %q", first.reason())
			}
			_ = second.end([]byte("end"))
		}
		call := w.start(t.Context(), nil)
		began := time.Now()
		if got, err := drain(call); err != nil || string(got) != "second end" {
			t.Errorf("got %q, %v", got, err)
		}
		checkBetween(t, "invariant 8: over", time.Since(began), 0, time.Second)
		call.Close()
		w.settle(time.Second)
	})
}

// TestStrays: whoever still works for a call that is over hears so: a stream is
// cancelled, an end is acknowledged. Anything else is not answered.
func TestStrays(t *testing.T) {
	const control = "tb.agent.x.e.ctl.s-1-1"
	cases := map[string]struct {
		reply string
		want  []string
	}{
		"data":         {bus.FrameReply(control, bus.KindData, 7), []string{control + ".cancel"}},
		"accepted":     {bus.FrameReply(control, bus.KindAccepted, 0), []string{control + ".cancel"}},
		"keepalive":    {bus.FrameReply(control, bus.KindKeepalive, 3), []string{control + ".cancel"}},
		"end":          {bus.FrameReply(control, bus.KindEnd, 9), []string{control + ".ack.9"}},
		"whole":        {bus.FrameReply(control, bus.KindWhole, 1), []string{control + ".ack.1"}},
		"not a frame":  {control + ".nonsense", nil},
		"no reply":     {"", nil},
		"unknown kind": {control + ".z.1", nil},
	}
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(*job) {})
		defer w.stop()
		var mu sync.Mutex
		var heard []string
		if _, err := w.agent.Subscribe(w.agent.Control, "tb.agent.x.>", "", func(m *bus.Msg) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, m.Subject)
		}); err != nil {
			t.Fatal(err)
		}
		w.flush()
		for name, c := range cases {
			for inbox, want := range map[string][]string{"zzz": c.want, "0": c.want, "not-a-number": nil} {
				m := &bus.Msg{Subject: bus.ReplyPrefix(w.client.ID(), 0) + inbox, Reply: c.reply, Data: []byte("x")}
				if err := w.agent.Data[0].PublishMsg(m); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
				mu.Lock()
				if !slices.Equal(heard, want) {
					t.Errorf("%s, inbox %s: heard %q, want %q", name, inbox, heard, want)
				}
				heard = nil
				mu.Unlock()
			}
		}
		if n := w.client.Stats().Strays; n != 10 {
			t.Errorf("%d strays were counted, want 10", n)
		}
	})
}

// TestCloseCancels: a call that is closed, or whose context ends, cancels its work
// within a second wherever it stands (invariant 8).
func TestCloseCancels(t *testing.T) {
	cases := map[string]struct {
		serve func(*job)
		after time.Duration
	}{
		"before its first frame": {func(j *job) { <-j.ctx.Done() }, 10 * time.Millisecond},
		"accepted":               {func(j *job) { <-j.ctx.Done() }, 5 * time.Second},
		"within its stream":      {stream(pattern(100<<10), 100, 10*time.Millisecond), time.Second},
		"with a full window":     {stream(pattern(4<<20), 8<<10, 0), 3 * time.Second},
	}
	for name, c := range cases {
		for how, closes := range map[string]bool{"closed": true, "context": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				bustest.Bubble(t, func(t *testing.T) {
					w := newWorld(t, time.Minute, c.serve)
					defer w.stop()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					call := w.start(ctx, nil)
					time.Sleep(c.after)
					if closes {
						call.Close()
					} else {
						cancel()
					}
					time.Sleep(time.Second)
					if r := w.first().reason(); r != bus.ReasonCancelled {
						t.Errorf("invariant 8: the work was not cancelled: %q", r)
					}
					if !closes {
						_, err := drain(call)
						checkReason(t, err, bus.ReasonCancelled)
						if !errors.Is(err, context.Canceled) {
							t.Errorf("the cause is lost: %v", err)
						}
						call.Close()
					}
					call.Close() // again does nothing
					w.settle(0)
				})
			})
		}
	}
}

// TestCancelledBeforeItCame: a cancel that overtakes its dispatch is remembered.
func TestCancelledBeforeItCame(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		ran := 0
		w := newWorld(t, time.Minute, func(*job) { ran++ })
		defer w.stop()
		if err := w.caller.Data[0].Publish(bus.AgentControlPrefix("a", "epoch")+"sched-1-1.cancel", nil); err != nil {
			t.Fatal(err)
		}
		w.flush()
		time.Sleep(10 * time.Millisecond)
		raw := w.rawCaller("early", bus.Header{bus.HeaderWindow: {"65536"}})
		time.Sleep(time.Second)
		if ran != 0 || w.responder.Streams() != 0 || len(raw.take()) != 0 {
			t.Errorf("it ran %d times", ran)
		}
	})
}

// TestIterator: Stream gives what Read gives.
func TestIterator(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(j *job) {
			_ = j.head([]byte("a"))
			_ = j.Send(bus.KindData, nil, []byte("b"))
			_ = j.Send(bus.KindError, bus.Header{bus.HeaderErrorCode: {"502"}, bus.HeaderReason: {string(bus.ReasonEngineLost)}, bus.HeaderError: {"gone"}}, nil)
		})
		defer w.stop()
		call := w.start(t.Context(), nil)
		var got []string
		for p, err := range call.Stream() {
			got = append(got, fmt.Sprintf("%s %v", p, err))
		}
		if want := []string{"a <nil>", "b <nil>", " engine_lost: gone"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if _, err := call.Read(); errors.Is(err, io.EOF) {
			t.Error("invariant 6: a broken answer ends like a whole one")
		}
		call.Close()
		w.settle(time.Second)
	})
}
