package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// world is one caller and one agent, each with a wire of its own. What takes the
// place of a scheduler and an engine is the function serve.
type world struct {
	t         *testing.T
	bus       *bustest.Bus
	client    *bus.Client
	responder *bus.Responder
	callerNet *bustest.Wire
	agentNet  *bustest.Wire
	caller    *bus.Link
	agent     *bus.Link
	serve     func(*job)
	leave     func() // takes no requests any more
	stop      func()
	stopAgent func() // before stop: only the responder ends

	mu   sync.Mutex
	jobs []*job
	work sync.WaitGroup
}

// job is one attempt at the agent.
type job struct {
	*bus.Sender
	w     *world
	m     *bus.Msg
	ctx   context.Context
	abort context.CancelCauseFunc
}

func newWorld(t *testing.T, stall time.Duration, serve func(*job)) *world {
	t.Helper()
	w := &world{t: t, bus: bustest.NewBus(t, ""), serve: serve}
	w.callerNet, w.agentNet = w.bus.NewWire(), w.bus.NewWire()
	w.caller, w.agent = w.callerNet.Link(t, "caller", nil), w.agentNet.Link(t, "agent", nil)
	var err error
	if w.client, err = bus.NewClient(w.caller); err != nil {
		t.Fatal(err)
	}
	if w.responder, err = bus.NewResponder(w.agent, "a", "epoch", stall); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var bg sync.WaitGroup
	agentCtx, stopAgent := context.WithCancel(ctx)
	agentEnded := make(chan struct{})
	bg.Go(func() { _ = w.client.Run(ctx) })
	bg.Go(func() {
		_ = w.responder.Run(agentCtx)
		close(agentEnded)
	})
	w.stopAgent = func() {
		stopAgent()
		<-agentEnded
	}
	sub, err := w.agent.Subscribe(w.agent.Data[0], bus.AllRequests, bus.SchedulerGroup, w.request)
	if err != nil {
		t.Fatal(err)
	}
	w.leave = func() { _ = sub.Unsubscribe() }
	w.stop = func() {
		cancel()
		bg.Wait()
		for _, j := range w.all() {
			j.abort(nil)
		}
		w.work.Wait()
		w.caller.Close()
		w.agent.Close()
		w.bus.Stop()
	}
	w.flush()
	return w
}

// flush waits until the servers know the subscriptions.
func (w *world) flush() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := errors.Join(w.agent.Flush(ctx), w.caller.Flush(ctx)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) all() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*job(nil), w.jobs...)
}

// first is the first attempt; it waits until that has reached the agent.
func (w *world) first() *job {
	w.t.Helper()
	for range 1000 {
		if jobs := w.all(); len(jobs) > 0 {
			return jobs[0]
		}
		time.Sleep(time.Millisecond)
	}
	w.t.Fatal("no request reached the agent")
	return nil
}

// request is a scheduler that has one agent.
func (w *world) request(m *bus.Msg) {
	w.mu.Lock()
	n := len(w.jobs) + 1
	w.mu.Unlock()
	if j := w.attempt(m, fmt.Sprintf("sched-%d-1", n)); j != nil {
		w.work.Go(func() {
			defer j.Close()
			w.serve(j)
		})
	}
}

// attempt opens an attempt of a request, nil if it was cancelled before.
func (w *world) attempt(m *bus.Msg, id string) *job {
	h := maps.Clone(m.Header)
	if h == nil {
		h = make(bus.Header)
	}
	h[bus.HeaderAttempt], h[bus.HeaderReply] = []string{id}, []string{m.Reply}
	j := &job{w: w, m: &bus.Msg{Subject: m.Subject, Reply: m.Reply, Header: h, Data: m.Data}}
	j.ctx, j.abort = context.WithCancelCause(context.Background())
	var ok bool
	if j.Sender, ok = w.responder.Open(j.m, j.abort); !ok {
		j.abort(nil)
		return nil
	}
	w.mu.Lock()
	w.jobs = append(w.jobs, j)
	w.mu.Unlock()
	return j
}

// head sends the first frame, with the first bytes.
func (j *job) head(data []byte) error {
	return j.Send(bus.KindHead, bus.Header{bus.HeaderStatus: {"200"}, bus.HeaderAgent: {"a"}}, data)
}

// end sends the last frame, with the last bytes.
func (j *job) end(data []byte) error {
	total := fmt.Sprint(j.Bytes() + int64(len(data)))
	return j.Send(bus.KindEnd, bus.Header{bus.HeaderBytes: {total}, bus.HeaderUsage: {"1 2 0"}}, data)
}

// reason is why the work was cancelled, "" if it was not.
func (j *job) reason() bus.Reason {
	if j.ctx.Err() == nil {
		return ""
	}
	return bus.AsError(context.Cause(j.ctx)).Reason
}

// start begins a streaming call; the test must close it.
func (w *world) start(ctx context.Context, edit func(*bus.Request)) *bus.Call {
	w.t.Helper()
	req := bus.Request{API: bus.Chat, Body: []byte(`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`)}
	if edit != nil {
		edit(&req)
	}
	call, err := w.client.Start(ctx, req)
	if err != nil {
		w.t.Fatal(err)
	}
	return call
}

// drain reads a call to its end; the error is nil if the answer is complete.
func drain(call *bus.Call) ([]byte, error) {
	var got []byte
	for {
		p, err := call.Read()
		got = append(got, p...)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

// checkReason fails unless err is a bus error of that reason.
func checkReason(t *testing.T, err error, want bus.Reason) {
	t.Helper()
	var e *bus.Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// checkBetween fails unless d is within bounds.
func checkBetween(t *testing.T, what string, d, lo, hi time.Duration) {
	t.Helper()
	if d < lo || d > hi {
		t.Errorf("%s after %v, want it between %v and %v", what, d, lo, hi)
	}
}

// settle fails unless nothing is left on either side (invariant 3).
func (w *world) settle(within time.Duration) {
	w.t.Helper()
	for until := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		streams, calls := w.responder.Streams(), w.client.Active()
		if streams == 0 && calls == 0 {
			return
		}
		if time.Now().After(until) {
			w.t.Errorf("invariant 3: %d streams and %d calls are left", streams, calls)
			return
		}
	}
}

// pattern is n bytes in which each place shows.
func pattern(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.Bytes()[:n]
}

// firstDifference says where two bodies part.
func firstDifference(got, want []byte) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	return fmt.Sprintf("%d of %d bytes, equal up to byte %d", len(got), len(want), n)
}

// stream sends body in chunks of size, with a pause between them, and its end.
func stream(body []byte, size int, pause time.Duration) func(*job) {
	return func(j *job) {
		body, send := body, j.head
		for len(body) > 0 {
			n := min(size, len(body))
			if send(body[:n]) != nil {
				return
			}
			body = body[n:]
			send = func(p []byte) error { return j.Send(bus.KindData, nil, p) }
			time.Sleep(pause)
		}
		_ = j.end(nil)
	}
}
