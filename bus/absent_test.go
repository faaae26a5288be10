package bus_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

func whole(text string) func(*job) {
	return func(j *job) { _ = j.Send(bus.KindWhole, bus.Header{bus.HeaderStatus: {"200"}}, []byte(text)) }
}

// TestNoScheduler: without a scheduler a request waits for one for a moment, then
// fails with a reason of its own.
func TestNoScheduler(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, whole("late"))
		defer w.stop()
		w.leave()
		w.flush()
		began := time.Now()
		call := w.start(t.Context(), nil)
		_, err := call.Head()
		checkReason(t, err, bus.ReasonNoScheduler)
		checkBetween(t, "refused", time.Since(began), bus.SchedulerGrace-time.Second, bus.SchedulerGrace+time.Second)
		if e := bus.AsError(err); e.Hint == "" || e.RetryAfterSeconds() == "" {
			t.Errorf("no hint or Retry-After: %+v", e)
		}
		call.Close()

		call = w.start(t.Context(), nil)
		time.Sleep(time.Second)
		if _, err := w.agent.Subscribe(w.agent.Data[0], bus.AllRequests, bus.SchedulerGroup, w.request); err != nil {
			t.Fatal(err)
		}
		if got, err := drain(call); err != nil || string(got) != "late" {
			t.Errorf("a scheduler that came late: %q, %v", got, err)
		}
		call.Close()
		w.settle(time.Second)
	})
}

// TestBusDown: without a bus a request fails with a clear error, and a bus that
// comes back in time is used.
func TestBusDown(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, whole("here"))
		defer w.stop()
		w.bus.Stop()
		time.Sleep(time.Second)
		began := time.Now()
		call := w.start(t.Context(), nil)
		_, err := call.Head()
		checkReason(t, err, bus.ReasonBusUnavailable)
		checkBetween(t, "refused", time.Since(began), time.Second, bus.SchedulerGrace+time.Second)
		if e := bus.AsError(err); e.Hint == "" || e.RetryAfterSeconds() == "" || errors.Unwrap(e) == nil {
			t.Errorf("no hint, Retry-After or cause: %+v", e)
		}
		call.Close()

		call = w.start(t.Context(), nil)
		time.Sleep(500 * time.Millisecond)
		w.bus.Start()
		if got, err := drain(call); err != nil || string(got) != "here" {
			t.Errorf("after the restart: %q, %v", got, err)
		}
		call.Close()
		w.settle(2 * bus.LingerFor)
	})
}

// TestBusRestart: a stream in flight survives restarts of the bus without loss or
// duplication (invariant 6; design.md §8).
func TestBusRestart(t *testing.T) {
	body := pattern(20 << 10)
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, stream(body, 100, 20*time.Millisecond))
		defer w.stop()
		call := w.start(t.Context(), nil)
		go func() {
			for range 2 {
				time.Sleep(time.Second)
				w.bus.Stop()
				time.Sleep(300 * time.Millisecond)
				w.bus.Start()
			}
		}()
		if got, err := drain(call); err != nil || !bytes.Equal(got, body) {
			t.Errorf("invariant 6: %s: %v", firstDifference(got, body), err)
		}
		call.Close()
		w.settle(2 * bus.LingerFor)
	})
}

// TestAgentLost: an agent that can't be reached any more is known within three
// seconds. A stream ends with an error; a request without a byte is published again
// with one try more, and names the agent not to use (invariants 5 and 6).
func TestAgentLost(t *testing.T) {
	t.Run("within a stream", func(t *testing.T) {
		bustest.Bubble(t, func(t *testing.T) {
			w := newWorld(t, time.Minute, stream(pattern(100<<10), 100, 20*time.Millisecond))
			defer w.stop()
			call := w.start(t.Context(), nil)
			time.Sleep(time.Second)
			w.agentNet.Down()
			began := time.Now()
			got, err := drain(call)
			checkReason(t, err, bus.ReasonAgentLost)
			checkBetween(t, "known", time.Since(began), 0, 3*time.Second)
			if !bytes.HasPrefix(pattern(100<<10), got) || len(got) == 0 {
				t.Errorf("invariant 6: %d bytes", len(got))
			}
			w.agentNet.Up()
			call.Close()
			w.settle(2 * bus.LingerFor)
			if n := len(w.all()); n != 1 {
				t.Errorf("invariant 5: it ran %d times", n)
			}
		})
	})
	t.Run("before its first byte", func(t *testing.T) {
		bustest.Bubble(t, func(t *testing.T) {
			w := newWorld(t, time.Minute, nil)
			defer w.stop()
			w.serve = func(j *job) {
				if bus.FirstHeader(j.m.Header, bus.HeaderTries) == "1" {
					if ex := bus.FirstHeader(j.m.Header, bus.HeaderExclude); ex != "a" {
						t.Errorf("excluded %q", ex)
					}
					whole("again")(j)
					return
				}
				time.Sleep(200 * time.Millisecond) // the caller hears that it was accepted
				w.agentNet.Down()
				time.Sleep(3 * time.Second)
				w.agentNet.Up()
				<-j.ctx.Done()
			}
			call := w.start(t.Context(), nil)
			began := time.Now()
			if got, err := drain(call); err != nil || string(got) != "again" {
				t.Errorf("got %q, %v", got, err)
			}
			checkBetween(t, "again", time.Since(began), time.Second, 7*time.Second)
			call.Close()
			w.settle(2 * bus.LingerFor)
		})
	})
}

// TestDeadline: the time of a request bounds the wait for its first byte, and the
// work is cancelled (invariant 8); a stream that flows is not cut.
func TestDeadline(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(j *job) { <-j.ctx.Done() })
		defer w.stop()
		short := func(r *bus.Request) { r.Timeout = 5 * time.Second }
		began := time.Now()
		call := w.start(t.Context(), short)
		_, err := call.Head()
		checkReason(t, err, bus.ReasonDeadline)
		checkBetween(t, "refused", time.Since(began), 5*time.Second, 6*time.Second)
		time.Sleep(time.Second)
		if r := w.first().reason(); r != bus.ReasonCancelled {
			t.Errorf("invariant 8: the work was not cancelled: %q", r)
		}
		call.Close()

		w.serve = stream(pattern(1000), 100, 2*time.Second)
		call = w.start(t.Context(), short)
		if got, err := drain(call); err != nil || len(got) != 1000 {
			t.Errorf("a stream was cut after %d bytes: %v", len(got), err)
		}
		call.Close()
		w.settle(time.Second)
	})
}
