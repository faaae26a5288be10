package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// maxRequestID bounds the request id that a client may choose, in bytes.
const maxRequestID = 128

// requestID keeps the client's request id, or makes one, and returns it.
func requestID(w http.ResponseWriter, r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) {
		id = bus.NewRequestID()
	}
	w.Header()["X-Request-Id"] = []string{id}
	return id
}

// exchange is one request of a client.
type exchange struct {
	g       *Gateway
	w       http.ResponseWriter
	r       *http.Request
	route   bus.Route
	id      string
	model   string
	stream  bool // the client asked for one
	began   time.Time
	written bool // the head was written
	sse     bool // what is written is a stream of events
	seen    tail
	rc      *http.ResponseController
	patient time.Time // when the write deadline was last moved
}

// A client that does not read for writeStall is cut. The deadline is moved only
// now and then: it is there for clients that stopped, not for slow ones.
const (
	writeStall   = 90 * time.Second
	movePatience = 15 * time.Second
)

func (x *exchange) patience() {
	if now := time.Now(); now.Sub(x.patient) > movePatience {
		x.patient = now
		_ = x.rc.SetWriteDeadline(now.Add(writeStall))
	}
}

// infer serves one request for a model.
func (g *Gateway) infer(w http.ResponseWriter, r *http.Request, route bus.Route) {
	x := &exchange{g: g, w: w, r: r, route: route, id: requestID(w, r), began: time.Now(), rc: http.NewResponseController(w)}
	x.seen.api, x.seen.number = route.API, -1
	g.counters.active.Add(1)
	defer g.counters.active.Add(-1)
	x.done(x.run())
}

// run serves the exchange; the error is why it was not served whole.
func (x *exchange) run() error {
	body, e := x.body()
	if e != nil {
		return x.refuse(e)
	}
	facts, err := bus.Peek(x.route.API, x.r.Header.Get("Content-Type"), body)
	if err != nil {
		return x.refuse(bus.AsError(err))
	}
	x.model, x.stream = facts.Model, facts.Stream
	call, err := x.g.client.Start(x.r.Context(), bus.Request{
		API: x.route.API, Path: x.route.Path, Query: x.r.URL.RawQuery, ID: x.id, Header: x.r.Header, Body: body, Facts: &facts,
		Timeout: x.g.cfg.Timeout,
	})
	if err != nil {
		return x.refuse(bus.AsError(err))
	}
	defer call.Close()
	if x.stream && x.g.cfg.KeepAlive > 0 {
		x.keepAlive(call)
	}
	head, err := call.Head()
	if err != nil {
		return x.broken(bus.AsError(err))
	}
	if x.written && (head.Status != http.StatusOK || !isEvents(head.Header)) {
		return x.misfit(head, call)
	}
	x.head(head, call)
	return x.copy(call)
}

// body reads the request body, up to the limit, however it is framed.
func (x *exchange) body() ([]byte, *bus.Error) {
	limit := x.g.cfg.BodyLimit
	tooLarge := func(size string) *bus.Error {
		return bus.Errorf(bus.ReasonTooLarge, "the request body has %s bytes, the limit is %d", size, limit)
	}
	length := x.r.ContentLength
	if length > limit {
		return nil, tooLarge(strconv.FormatInt(length, 10))
	}
	_ = x.rc.SetReadDeadline(time.Now().Add(x.g.cfg.ReadTimeout))
	defer func() { _ = x.rc.SetReadDeadline(time.Time{}) }()
	var body []byte
	var err error
	if length >= 0 {
		body = make([]byte, length)
		_, err = io.ReadFull(x.r.Body, body)
	} else if body, err = io.ReadAll(io.LimitReader(x.r.Body, limit+1)); int64(len(body)) > limit {
		return nil, tooLarge("more than " + strconv.FormatInt(limit, 10))
	}
	if err != nil {
		return nil, &bus.Error{Reason: bus.ReasonBadRequest, Message: "the request body ended early or came too slowly", Cause: err}
	}
	return body, nil
}

// head writes status and headers.
func (x *exchange) head(head *bus.Head, call *bus.Call) {
	if x.written {
		return // early, for keep-alives
	}
	h := x.w.Header()
	for name, values := range head.Header {
		h[name] = values
	}
	x.receipt(h, head)
	x.sse = isEvents(h)
	length := head.Length
	if end := call.Complete(); end != nil {
		length = end.Bytes
	}
	if length >= 0 && !x.sse {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	if x.sse {
		if _, ok := h["Cache-Control"]; !ok {
			h["Cache-Control"] = []string{"no-cache"}
		}
		h["X-Accel-Buffering"] = []string{"no"}
	}
	x.w.WriteHeader(head.Status)
	x.written = true
	x.g.counters.status(head.Status)
}

func isEvents(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

func (x *exchange) receipt(h http.Header, head *bus.Head) {
	h["X-Tokenbus-Agent"] = []string{head.Agent}
	h["X-Tokenbus-Attempts"] = []string{strconv.Itoa(head.Attempts)}
	h["X-Tokenbus-Queue-Ms"] = []string{strconv.FormatInt(head.Queued.Milliseconds(), 10)}
}

// copy writes the body as it comes: what is there in one go, flushed as soon as
// there is no more.
func (x *exchange) copy(call *bus.Call) error {
	for {
		if x.sse && x.g.cfg.KeepAlive > 0 && !x.comments(call) {
			return x.r.Context().Err()
		}
		p, err := call.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return x.broken(bus.AsError(err))
		}
		if x.sse {
			x.seen.saw(p)
		}
		x.patience()
		if _, err := x.w.Write(p); err != nil {
			return fmt.Errorf("write to the client: %w", err)
		}
		if call.Idle() {
			if err := x.rc.Flush(); err != nil {
				return fmt.Errorf("write to the client: %w", err)
			}
		}
	}
}

// refuse answers with an error before anything ran.
func (x *exchange) refuse(e *bus.Error) error {
	x.g.counters.rejected(e.Reason)
	writeError(x.w, dialectOf(x.route.API), x.id, e)
	return e
}

// broken ends an exchange whose answer failed: before the head as an error of its
// own, within a stream as an error event, within anything else by breaking off.
func (x *exchange) broken(e *bus.Error) error {
	if x.r.Context().Err() != nil || e.Reason == bus.ReasonCancelled && x.written {
		x.g.counters.cancelled.Add(1)
		return e
	}
	if !x.written {
		return x.refuse(e)
	}
	x.g.counters.broken.Add(1)
	if !x.sse {
		x.done(e)
		panic(http.ErrAbortHandler)
	}
	x.patience()
	_, _ = x.w.Write(append(x.seen.separator(), errorEvent(x.route.API, x.id, x.model, &x.seen, e)...))
	_ = x.rc.Flush()
	return e
}

// done logs an exchange.
func (x *exchange) done(err error) {
	log := x.g.log
	if !log.Enabled(x.r.Context(), levelRequest) {
		return
	}
	attrs := []any{"request_id", x.id, "path", x.route.Path, "model", x.model, "stream", x.stream, "duration_ms", time.Since(x.began).Milliseconds()}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	log.Log(x.r.Context(), levelRequest, "request", attrs...)
}
