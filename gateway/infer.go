package gateway

import (
	"context"
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
	out     output
	ctx     context.Context // ends when the client has left
	cancel  context.CancelFunc
	call    *bus.Call // nil before the request was published
	patient time.Time // when the write deadline was last moved

	status int       // that the client was told, 0 if none
	agent  bool      // an agent answered
	gone   bool      // a write to the client failed
	first  time.Time // when the first bytes of the body were written
	last   time.Time // and the last ones
}

// output is where an answer goes: an [http.ResponseWriter] or the bare connection.
type output interface {
	io.Writer
	Flush() error
	SetWriteDeadline(time.Time) error
}

// served is the output of an answer that net/http writes.
type served struct {
	io.Writer
	*http.ResponseController
}

// A client that does not read for writeStall is cut. The deadline is moved only
// now and then: it is there for clients that stopped, not for slow ones.
const (
	writeStall   = 90 * time.Second
	movePatience = 15 * time.Second
)

func (x *exchange) patience() time.Time {
	now := time.Now()
	if now.Sub(x.patient) > movePatience {
		x.patient = now
		_ = x.out.SetWriteDeadline(now.Add(writeStall))
	}
	return now
}

// infer serves one request for a model.
func (g *Gateway) infer(w http.ResponseWriter, r *http.Request, route bus.Route) {
	x := &exchange{g: g, w: w, r: r, route: route, id: requestID(w, r), began: time.Now()}
	x.out = served{w, http.NewResponseController(w)}
	x.seen.api, x.seen.number = route.API, -1
	// A detached stream outlives the handler, and with it the request's context.
	x.ctx, x.cancel = context.WithCancel(context.WithoutCancel(r.Context()))
	unlink := context.AfterFunc(r.Context(), x.cancel)
	g.counters.active.Add(1)
	detached := false
	defer func() {
		unlink()
		if !detached {
			x.close()
		}
	}()
	head, err := x.open()
	if err == nil {
		if detached = x.detach(head); detached {
			return
		}
		x.head(head)
		err = x.copy()
	}
	x.done(err)
}

// close releases everything that the exchange holds.
func (x *exchange) close() {
	x.cancel()
	if x.call != nil {
		x.call.Close()
	}
	x.g.counters.active.Add(-1)
}

// open publishes the request and waits for the head of its answer. On an error,
// the client has been told already.
func (x *exchange) open() (*bus.Head, error) {
	body, e := x.body()
	if e != nil {
		return nil, x.refuse(e)
	}
	facts, err := bus.Peek(x.route.API, x.r.Header.Get("Content-Type"), body)
	if err != nil {
		return nil, x.refuse(bus.AsError(err))
	}
	x.model, x.stream = facts.Model, facts.Stream
	x.call, err = x.g.client.Start(x.ctx, bus.Request{
		API: x.route.API, Path: x.route.Path, Query: x.r.URL.RawQuery, ID: x.id, Header: x.r.Header, Body: body, Facts: &facts,
		Timeout: x.g.cfg.Timeout,
	})
	if err != nil {
		return nil, x.refuse(bus.AsError(err))
	}
	if x.stream && x.g.cfg.KeepAlive > 0 {
		x.keepAlive()
	}
	head, err := x.call.Head()
	if err != nil {
		return nil, x.broken(bus.AsError(err))
	}
	x.agent = head.Agent != ""
	if x.written && (head.Status != http.StatusOK || !isEvents(head.Header)) {
		return nil, x.misfit(head)
	}
	return head, nil
}

// atOnce is the largest body for which memory is taken before it has come.
const atOnce = 1 << 20

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
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Now().Add(x.g.cfg.ReadTimeout))
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	var body []byte
	var err error
	if length >= 0 && length <= atOnce {
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
func (x *exchange) head(head *bus.Head) {
	if x.written {
		return // early, for keep-alives
	}
	h := x.w.Header()
	x.fields(h, head)
	length := head.Length
	if end := x.call.Complete(); end != nil {
		length = end.Bytes
	}
	if length >= 0 && !x.sse {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	x.w.WriteHeader(head.Status)
	x.said(head.Status)
}

// fields sets the header fields of the answer.
func (x *exchange) fields(h http.Header, head *bus.Head) {
	for name, values := range head.Header {
		h[name] = values
	}
	h["X-Tokenbus-Agent"] = []string{head.Agent}
	h["X-Tokenbus-Attempts"] = []string{strconv.Itoa(head.Attempts)}
	if head.Label != "" {
		h["X-Tokenbus-Decision"] = []string{head.Label}
	}
	if head.Model != "" {
		h["X-Tokenbus-Model"] = []string{head.Model}
	}
	h["X-Tokenbus-Queue-Ms"] = []string{strconv.FormatInt(head.Queued.Milliseconds(), 10)}
	x.sse = isEvents(h)
	if x.sse {
		if _, ok := h["Cache-Control"]; !ok {
			h["Cache-Control"] = []string{"no-cache"}
		}
		h["X-Accel-Buffering"] = []string{"no"}
	}
}

// said notes that the head is on its way.
func (x *exchange) said(status int) {
	x.written, x.status = true, status
	x.g.counters.status(status)
}

func isEvents(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// copy writes the body as it comes: what is there in one go, flushed as soon as
// there is no more.
func (x *exchange) copy() error {
	for {
		if x.sse && x.g.cfg.KeepAlive > 0 && !x.comments() {
			return x.ctx.Err()
		}
		p, err := x.call.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return x.broken(bus.AsError(err))
		}
		if x.sse {
			x.seen.saw(p)
		}
		x.last = x.patience()
		if x.first.IsZero() {
			x.first = x.last
		}
		if _, err := x.out.Write(p); err != nil {
			return x.lost(err)
		}
		if x.call.Idle() {
			if err := x.out.Flush(); err != nil {
				return x.lost(err)
			}
		}
	}
}

// lost notes that the client takes no more.
func (x *exchange) lost(err error) error {
	x.gone = true
	return fmt.Errorf("write to the client: %w", err)
}

// refuse answers with an error before anything ran.
func (x *exchange) refuse(e *bus.Error) error {
	x.refused(e)
	writeError(x.w, dialectOf(x.route.API), x.id, e)
	return e
}

// broken ends an exchange whose answer failed: before the head as an error of its
// own, within a stream as an error event, within anything else by breaking off.
func (x *exchange) broken(e *bus.Error) error {
	if x.ctx.Err() != nil || e.Reason == bus.ReasonCancelled && x.written {
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
	_, _ = x.out.Write(append(x.seen.separator(), errorEvent(x.route.API, x.id, x.model, &x.seen, e)...))
	_ = x.out.Flush()
	return e
}

// done measures and logs an exchange.
func (x *exchange) done(err error) {
	now := time.Now()
	x.observe(err, now)
	log := x.g.log
	if !log.Enabled(x.ctx, levelRequest) {
		return
	}
	attrs := []any{"request_id", x.id, "path", x.route.Path, "model", x.model, "stream", x.stream, "duration_ms", now.Sub(x.began).Milliseconds()}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	log.Log(x.ctx, levelRequest, "request", attrs...)
}
