package gateway

import (
	"errors"
	"os"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// statusLeft stands for the status of a request whose client left before there was
// one, as in the logs of common proxies.
const statusLeft = 499

// observe measures an exchange that is over.
func (x *exchange) observe(err error, now time.Time) {
	if err != nil || x.gone {
		x.failed(err)
	}
	var end *bus.End
	var started time.Time
	if err == nil && x.call != nil {
		end, started = x.call.Complete(), x.call.Started()
	}
	x.g.meters.observe(x, end, started, now)
}

// observe measures an exchange whose request was published at started. Latencies are
// those of complete answers with a status of 2xx; end is nil if it is not complete.
func (m *meters) observe(x *exchange, end *bus.End, started, now time.Time) {
	code := x.status
	if code == 0 {
		code = statusLeft
	}
	s := m.of(x.model, x.route.API, x.agent)
	var used bus.Usage
	if end != nil {
		used = end.Usage
	}
	s.add(code, used)
	if end == nil || code/100 != 2 {
		return
	}
	s.duration.Observe(now.Sub(x.began).Seconds())
	if end.HasUsage {
		s.input.Observe(float64(used.Prompt))
		if used.Completion > 0 {
			s.output.Observe(float64(used.Completion))
		}
	}
	streamed := x.sse && !x.first.IsZero()
	if streamed {
		s.firstToken.Observe(x.first.Sub(x.began).Seconds())
		if used.Completion > 1 {
			s.perToken.Observe(x.last.Sub(x.first).Seconds() / float64(used.Completion-1))
		}
	}
	// What was added to the time that the engine took: up to the first byte of a
	// stream, because what comes later may wait for the client, or to the end of
	// another answer. Tries that failed are in it, the wait for a free slot is not.
	engine, took := end.Timing.Total-end.Timing.Accept, now.Sub(started)
	if streamed {
		engine, took = end.Timing.First, x.first.Sub(started)
	}
	if end.Timing.First > 0 && !x.first.IsZero() {
		m.overhead.Observe(max(took-end.Timing.Queue-engine, 0).Seconds())
	}
}

// failed counts an exchange that is not complete for a reason that is the client's.
func (x *exchange) failed(err error) {
	var e *bus.Error
	said := errors.As(err, &e)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) || said && e.Reason == bus.ReasonSlowCaller:
		x.g.meters.slow.Add(1)
	case x.gone, x.status == 0, x.written && (x.ctx.Err() != nil || said && e.Reason == bus.ReasonCancelled):
		x.g.counters.cancelled[x.reached()].Add(1)
	}
}

// reached is how far the exchange has come.
func (x *exchange) reached() phase {
	switch {
	case !x.first.IsZero():
		return phaseStreaming
	case x.call != nil && x.call.Accepted():
		return phaseFirstByte
	}
	return phaseQueued
}

// refused notes that the answer is an error made by Tokenbus.
func (x *exchange) refused(e *bus.Error) {
	x.status = e.Status()
	x.g.counters.rejected(e.Reason)
}
