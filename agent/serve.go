package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// Sizes of what is read from the engine at one time, in bytes. A stream's buffer
// is held as long as the stream.
const (
	streamBuffer = 2 << 10
	bodyBuffer   = 64 << 10
	maxFailBody  = 1 << 20  // of an engine's error
	bareHeadroom = 16 << 10 // of the NATS message that a bare caller gets
)

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, bodyBuffer); return &b }}

// run calls the engine and forwards its answer.
func (j *job) run() {
	req, inline, e := j.request()
	if e != nil {
		j.tell(e)
		j.finish(clientError, bus.Usage{})
		return
	}
	j.called = time.Now()
	resp, err := j.a.engine.do(j.ctx, req, inline)
	if err != nil {
		j.broken(err)
		return
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable:
		j.failed(bus.ClassBusy, resp)
	case resp.StatusCode >= 500:
		j.failed(bus.ClassEngineError, resp)
	default:
		j.forward(resp)
	}
}

// request builds the engine's request: the caller's bytes, the caller's end-to-end
// headers, the engine's own key. inline tells that its body is in memory.
func (j *job) request() (req *http.Request, inline bool, _ *bus.Error) {
	h := j.m.Header
	path, ok := j.api.EnginePath(bus.FirstHeader(h, bus.HeaderPath))
	if !ok {
		return nil, false, bus.Errorf(bus.ReasonRouteNotFound, "the API %q has no path %q", j.api, bus.FirstHeader(h, bus.HeaderPath))
	}
	target := *j.a.engine.url
	target.Path += j.a.engine.path(j.api, path)
	target.RawQuery = bus.FirstHeader(h, bus.HeaderQuery)
	if strings.ContainsFunc(target.RawQuery, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }) {
		return nil, false, bus.Errorf(bus.ReasonBadRequest, "the query string has a character that must be escaped")
	}
	inline = bus.FirstHeader(h, bus.HeaderBody) == ""
	open, size, e := j.body(inline)
	if e != nil {
		return nil, false, e
	}
	body, err := open()
	if err != nil {
		return nil, false, bus.AsError(err)
	}
	req = &http.Request{
		Method: http.MethodPost, URL: &target, Host: target.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, 12), Body: body, ContentLength: size, GetBody: open,
	}
	if size == 0 {
		req.Body = http.NoBody
	}
	bus.EngineRequestHeaders(req.Header, h)
	// A socket that the engine closed while it was idle fails before any byte of
	// an answer; net/http then sends the request again, on another, if it knows
	// that this is safe. A nil value says so and is not sent.
	if _, ok := req.Header["X-Idempotency-Key"]; !ok && !inline {
		req.Header["X-Idempotency-Key"] = nil
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = nil // not net/http's own
	}
	req.Header["X-Request-Id"] = []string{j.attempt}
	j.a.engine.authorize(req.Header)
	return req, inline, nil
}

// body gives a function that opens the request body, edited as the request names,
// and its size in bytes.
func (j *job) body(inline bool) (open func() (io.ReadCloser, error), size int64, _ *bus.Error) {
	h := j.m.Header
	size = int64(len(j.m.Data))
	if !inline {
		n, err := strconv.ParseInt(bus.FirstHeader(h, bus.HeaderSize), 10, 64)
		if err != nil || n < 0 {
			return nil, 0, bus.Errorf(bus.ReasonBadRequest, "the request offers a body without its size")
		}
		size = n
	}
	edits, e := parseEdits(h[bus.HeaderSplice], size)
	if e != nil {
		return nil, 0, e
	}
	if inline {
		data := j.m.Data
		if len(edits) > 0 {
			data = edit(data, edits)
		}
		return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, int64(len(data)), nil
	}
	return func() (io.ReadCloser, error) {
		body, _, err := bus.PullBody(j.ctx, j.a.link, j.m)
		if err != nil || len(edits) == 0 {
			return body, err
		}
		return struct {
			io.Reader
			io.Closer
		}{editReader(body, edits), body}, nil
	}, size + grown(edits), nil
}

// broken handles an engine that gave no response at all.
func (j *job) broken(err error) {
	if cause := j.cause(); cause != nil {
		j.stopped(cause)
		return
	}
	class := bus.ClassLost
	if refused(err) {
		class = bus.ClassRefused
		j.a.doubt(err)
	}
	j.a.log.Warn("engine call failed", "attempt", j.attempt, "class", class, "err", err)
	j.report(class, 0, nil, nil)
}

// cause is why the job was cancelled, nil if it was not.
func (j *job) cause() *bus.Error {
	if j.ctx.Err() == nil {
		return nil
	}
	return bus.AsError(context.Cause(j.ctx))
}

// stopped ends a job that was cancelled: nobody is told if the caller went away.
func (j *job) stopped(cause *bus.Error) {
	if cause.Reason == bus.ReasonCancelled || cause.Reason == bus.ReasonSlowCaller {
		o := cancelled
		if j.overdue(time.Now().Add(jobsInterval)) {
			o = late // the caller's own clock was first
		}
		j.finish(o, bus.Usage{})
		return
	}
	if cause.Reason == bus.ReasonFirstByte && !j.begun.Load() {
		j.report(bus.ClassLost, 0, nil, nil) // another agent may be faster
		return
	}
	j.tell(cause)
	j.finish(outcomeOfCause(cause.Reason), bus.Usage{})
}

// failed hands an engine's refusal or failure to the scheduler, which knows where
// else the request can run.
func (j *job) failed(class bus.Class, resp *http.Response) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFailBody+1))
	if err != nil && j.cause() != nil {
		j.stopped(j.cause())
		return
	}
	if err != nil || len(body) > maxFailBody {
		// Half a body must not look like a whole one.
		j.report(class, 0, nil, nil)
		return
	}
	j.report(class, resp.StatusCode, resp.Header, body)
}

// report frees the slot and tells the scheduler how the attempt failed before its
// first byte. If the scheduler is gone, the caller is told.
func (j *job) report(class bus.Class, status int, hdr http.Header, body []byte) {
	j.a.slots.free(ending{outcome: outcomeOf(class, status)}, j.tokens)
	f := bus.Failure{Class: class, Agent: j.a.cfg.ID, Status: status, Header: make(bus.Header), Body: body}
	bus.ResponseHeaders(f.Header, hdr)
	if err := j.a.link.ReportFailure(j.ctx, j.sched, j.attempt, f); err != nil {
		if cause := j.cause(); cause == nil || cause.Reason != bus.ReasonCancelled {
			j.sender.Failure(f, j.receipt())
		}
	}
	j.sender.Close()
}

// tell ends the answer with an error made here.
func (j *job) tell(e *bus.Error) {
	h := j.receipt()
	e.SetHeaders(h)
	if j.sender.Framed() {
		_ = j.sender.Send(bus.KindError, h, e.JSON())
		return
	}
	_ = j.sender.Raw(h, e.JSON())
}

// forward sends the answer of an engine that took the request.
func (j *job) forward(resp *http.Response) {
	sse := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	plain := resp.Header.Get("Content-Encoding") == ""
	out := &answer{j: j, head: j.receipt(), live: j.sender.Framed() || j.sender.Shadow() || sse && j.stream}
	// A stream may be open for long: it keeps nothing of its request.
	strip := bus.FirstHeader(j.m.Header, bus.HeaderStrip) == "usage"
	resp.Request, j.m = nil, nil
	out.head[bus.HeaderStatus] = []string{strconv.Itoa(resp.StatusCode)}
	var names *renamer
	if j.alias != "" && plain && (sse || strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")) {
		names = newRenamer(j.model, j.alias, sse)
	}
	if resp.ContentLength >= 0 && !strip && names == nil {
		out.head[bus.HeaderLength] = []string{strconv.FormatInt(resp.ContentLength, 10)}
	}
	bus.ResponseHeaders(out.head, resp.Header)
	if !j.sender.Framed() && resp.StatusCode >= 400 {
		out.head[bus.HeaderErrorCode] = []string{strconv.Itoa(resp.StatusCode)}
		out.head[bus.HeaderError] = []string{"the engine answers " + resp.Status}
	}
	var events *sseStream
	var body *bodyUsage
	if plain && sse {
		events = &sseStream{api: j.api, strip: strip}
	} else if plain {
		body = &bodyUsage{}
	}
	var buf []byte
	if sse {
		buf = make([]byte, streamBuffer)
	} else {
		p := bodyBuffers.Get().(*[]byte)
		defer bodyBuffers.Put(p)
		buf = *p
	}
	// A body that is known to fit is sent in one message with its head.
	gather := !sse && resp.ContentLength >= 0 && resp.ContentLength < int64(len(buf))
	fill := 0
	for {
		asked := time.Now().UnixNano()
		j.a.heard.now(asked) // the head came, or the last part
		j.waiting.Store(asked)
		n, err := resp.Body.Read(buf[fill:])
		j.waiting.Store(0)
		if n > 0 && j.first.IsZero() {
			j.first = time.Now()
			if resp.StatusCode < 400 {
				j.a.srtt.add(j.first.Sub(j.taken))
			}
		}
		fill += n
		if fill > 0 && (!gather || err != nil) {
			p := buf[:fill]
			fill = 0
			if events != nil {
				p = events.feed(p)
			} else if body != nil {
				body.write(p)
			}
			if names != nil {
				p = names.feed(p)
				if events == nil && errors.Is(err, io.EOF) {
					p = append(p, names.flush()...)
				}
			}
			if serr := out.bytes(p, events == nil && errors.Is(err, io.EOF)); serr != nil {
				err = serr
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			var rest []byte
			if events != nil {
				rest = events.flush()
			}
			if names != nil {
				rest = append(slices.Clone(names.feed(rest)), names.flush()...)
			}
			if len(rest) > 0 {
				if serr := out.bytes(rest, events == nil); serr != nil {
					err = serr
				}
			}
		}
		var u bus.Usage
		var has bool
		switch {
		case events != nil:
			u, has = events.used, events.hasUsage
		case body != nil:
			u, has = body.usage()
		}
		j.ended(out, resp, err, events == nil || resp.StatusCode != http.StatusOK || events.finished(), u, has)
		return
	}
}

// ended closes an answer after the engine's last byte, or after what broke it.
func (j *job) ended(out *answer, resp *http.Response, err error, finished bool, u bus.Usage, has bool) {
	ok := errors.Is(err, io.EOF)
	empty := out.total == 0 && j.first.IsZero()
	if cause := j.cause(); cause != nil && !(ok && finished) {
		j.stopped(cause)
		return
	}
	var own *bus.Error
	switch {
	case !ok && errors.As(err, &own):
		j.tell(own)
		j.finish(clientError, u)
	case ok && empty && resp.StatusCode == http.StatusOK:
		j.a.log.Warn("engine answered without a body", "attempt", j.attempt)
		j.report(bus.ClassLost, 0, nil, nil)
	case !ok && !out.begun:
		j.a.log.Warn("engine broke off before its first byte", "attempt", j.attempt, "err", err)
		j.report(bus.ClassLost, 0, nil, nil)
	case !ok || !finished:
		what := "the engine ended the stream without finishing it"
		if !ok {
			what = "the connection to the engine broke"
		}
		j.a.log.Warn("answer broken", "attempt", j.attempt, "err", err, "bytes", out.total)
		j.tell(&bus.Error{Reason: bus.ReasonEngineLost, Message: fmt.Sprintf("%s after %d bytes", what, out.total), Cause: err})
		j.finish(broken, u)
	default:
		if out.end(u, has) != nil {
			j.finish(cancelled, u)
			return
		}
		o := succeeded
		if resp.StatusCode >= 400 {
			o = clientError
		}
		j.finish(o, u)
	}
}

// answer sends an answer in the form that its caller takes.
type answer struct {
	j     *job
	head  bus.Header // until it was sent
	live  bool       // send as it comes; otherwise keep, for one message
	begun bool       // something was sent
	total int64
	kept  []byte // the last bytes, which travel with the end
}

// bytes sends a part of the body. The head travels with the first part.
func (o *answer) bytes(p []byte, last bool) error {
	if len(p) == 0 {
		return nil
	}
	o.total += int64(len(p))
	s := o.j.sender
	if !o.live {
		if limit := o.j.a.link.MaxPayload() - bareHeadroom; len(o.kept)+len(p) > limit {
			return bus.Errorf(bus.ReasonTooLarge, "the answer has more than %d bytes, the most that one message holds", limit)
		}
		o.kept = append(o.kept, p...)
		return nil
	}
	if last && s.Framed() {
		o.kept = p
		return nil
	}
	head := o.head
	o.head = nil
	if !o.begun {
		o.begun = true
		o.j.begun.Store(true)
		if !s.Framed() {
			return s.Raw(nil, p)
		}
		o.j.a.notifier.Say(o.j.sched, o.j.attempt, bus.NoteFirst)
		return s.Send(bus.KindHead, head, p)
	}
	if !s.Framed() {
		return s.Raw(nil, p)
	}
	return s.Send(bus.KindData, nil, p)
}

// end sends what closes the answer.
func (o *answer) end(u bus.Usage, has bool) error {
	s := o.j.sender
	switch {
	case s.Framed() && !o.begun:
		return s.Send(bus.KindWhole, o.j.totals(o.head, o.total, u, has), o.kept)
	case s.Framed():
		return s.Send(bus.KindEnd, o.j.totals(nil, o.total, u, has), o.kept)
	case o.live && o.begun:
		return s.Raw(nil, nil)
	}
	return s.Raw(o.j.totals(o.head, o.total, u, has), o.kept)
}
