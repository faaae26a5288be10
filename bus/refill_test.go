package bus_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// cut breaks one wire, and keeps it down for span.
type cut struct {
	at, span time.Duration
	agent    bool
}

func drawCuts(rt *rapid.T, longest int) []cut {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) cut {
		return cut{
			at:   time.Duration(rapid.IntRange(0, 2000).Draw(rt, "at")) * time.Millisecond,
			span: time.Duration(rapid.IntRange(0, longest).Draw(rt, "span")) * time.Millisecond, agent: rapid.Bool().Draw(rt, "agent"),
		}
	}), 0, 5).Draw(rt, "cuts")
}

// happen breaks the wires at their times; wait returns when all are up again.
func (w *world) happen(cuts []cut) (wait func()) {
	var wg sync.WaitGroup
	for _, c := range cuts {
		wg.Go(func() {
			time.Sleep(c.at)
			net := w.callerNet
			if c.agent {
				net = w.agentNet
			}
			if c.span == 0 {
				net.Cut()
				return
			}
			net.Down()
			time.Sleep(c.span)
			net.Up()
		})
	}
	return wg.Wait
}

// chunked sends body in chunks of the given sizes, over and over.
func chunked(body []byte, sizes []int, pause time.Duration) func(*job) {
	return func(j *job) {
		send := j.head
		rest := body
		for i := 0; len(rest) > 0; i++ {
			n := min(sizes[i%len(sizes)], len(rest))
			if send(rest[:n]) != nil {
				return
			}
			rest = rest[n:]
			send = func(p []byte) error { return j.Send(bus.KindData, nil, p) }
			time.Sleep(pause)
		}
		_ = j.end(nil)
	}
}

// cutRun runs one stream over wires that break, and gives what the caller got and
// how often the request ran.
func cutRun(t *testing.T, cuts []cut, serve func(*job)) (got []byte, runs int, err error) {
	w := newWorld(t, time.Minute, serve)
	defer w.stop()
	call := w.start(t.Context(), nil)
	time.Sleep(100 * time.Millisecond) // the caller knows who serves it
	wait := w.happen(cuts)
	got, err = drain(call)
	wait()
	time.Sleep(2 * time.Second) // all are back
	call.Close()
	w.settle(2 * bus.LingerFor)
	return got, len(w.all()), err
}

// TestRefill: frames that are lost on a wire that breaks for a moment are sent
// again: each byte arrives exactly once, in order. However long a wire is down, the
// caller gets that, or a beginning of it and an error (invariant 6), and nothing
// runs again once it has a byte (invariant 5).
func TestRefill(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body := pattern(rapid.IntRange(1, 40<<10).Draw(rt, "bytes"))
		sizes := rapid.SliceOfN(rapid.IntRange(1, 6000), 1, 5).Draw(rt, "sizes")
		pause := time.Duration(rapid.IntRange(0, 150).Draw(rt, "pause")) * time.Millisecond
		longest := rapid.SampledFrom([]int{0, 0, 6000}).Draw(rt, "longest")
		cuts := drawCuts(rt, longest)
		broken := ""
		bustest.Bubble(t, func(t *testing.T) {
			got, runs, err := cutRun(t, cuts, chunked(body, sizes, pause))
			switch {
			case err == nil && !bytes.Equal(got, body), !bytes.HasPrefix(body, got), err != nil && longest == 0:
				broken = fmt.Sprintf("invariant 6: %s: %v", firstDifference(got, body), err)
			case runs != 1 && (longest == 0 || err != nil && len(got) > 0):
				broken = fmt.Sprintf("invariant 5: it ran %d times", runs)
			}
		})
		if broken != "" {
			rt.Fatal(broken)
		}
	})
}

// TestFirstFramesLost: the caller has heard nothing of its agent when frames get
// lost, and the stream goes on without a pause. The gap is refilled at once, not
// when the stream happens to pause, and nothing runs twice.
func TestFirstFramesLost(t *testing.T) {
	body := pattern(2000)
	cases := map[string]func(w *world) *bustest.Wire{
		"on the agent's wire":  func(w *world) *bustest.Wire { return w.agentNet },
		"on the caller's wire": func(w *world) *bustest.Wire { return w.callerNet },
	}
	for name, wire := range cases {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, time.Minute, func(j *job) {
					if net := wire(j.w); len(j.w.all()) == 1 {
						net.Down()
						go func() {
							time.Sleep(30 * time.Millisecond)
							net.Up()
						}()
					}
					// Twenty seconds without a pause in which the sender would say more.
					stream(body, 10, 100*time.Millisecond)(j)
				})
				defer w.stop()
				began := time.Now()
				call := w.start(t.Context(), nil)
				first, err := call.Read()
				if err != nil {
					t.Fatal(err)
				}
				checkBetween(t, "first byte", time.Since(began), 0, bus.SilenceLimit)
				rest, err := drain(call)
				if got := append(first, rest...); err != nil || !bytes.Equal(got, body) {
					t.Errorf("invariant 6: %s: %v", firstDifference(got, body), err)
				}
				if n := len(w.all()); n != 1 {
					t.Errorf("the request ran %d times", n)
				}
				if s := w.client.Stats(); s.Repaired == 0 || s.Repaired > s.Resends {
					t.Errorf("%d gaps were filled, %d asked for", s.Repaired, s.Resends)
				}
				call.Close()
				w.settle(2 * bus.LingerFor)
			})
		})
	}
}

// TestDuplicates: what is asked for again, and comes twice, is given out once.
func TestDuplicates(t *testing.T) {
	body := pattern(20 << 10)
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, stream(body, 100, 10*time.Millisecond))
		defer w.stop()
		call := w.start(t.Context(), nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 15 {
				time.Sleep(100 * time.Millisecond) // ten frames: the last few are not acknowledged
				_ = w.caller.Data[0].Publish(fmt.Sprintf("%s.resend.%d", w.first().Control(), 10*i+5), nil)
			}
		})
		got, err := drain(call)
		wg.Wait()
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("invariant 6: %s: %v", firstDifference(got, body), err)
		}
		if w.client.Stats().Duplicates == 0 {
			t.Error("nothing came twice")
		}
		call.Close()
		w.settle(time.Second)
	})
}
