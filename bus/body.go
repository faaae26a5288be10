package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Request bodies above InlineBody bytes are not pushed through the scheduler: the
// agent pulls them in parts of BodyPart bytes.
const (
	InlineBody   = 64 << 10
	BodyPart     = 256 << 10
	partTimeout  = 2 * time.Second
	bodyPatience = 10 * time.Second
)

// serveBody answers a request for a part: "offset length", both in bytes.
func (c *Client) serveBody(m *Msg) {
	token, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	part, ok := c.bodyPart(token, string(m.Data))
	if !ok {
		hdr := make(Header)
		Errorf(ReasonCancelled, "the body is not offered any more").SetHeaders(hdr)
		_ = m.RespondMsg(&Msg{Header: hdr})
		return
	}
	_ = m.Respond(part)
}

func (c *Client) bodyPart(token uint64, ask string) ([]byte, bool) {
	call := c.lookup(token)
	if call == nil {
		return nil, false
	}
	call.mu.Lock()
	body := call.body
	call.mu.Unlock()
	at, length, ok := strings.Cut(ask, " ")
	offset, err1 := strconv.Atoi(at)
	n, err2 := strconv.Atoi(length)
	if !ok || err1 != nil || err2 != nil || offset < 0 || n <= 0 || n > BodyPart || offset >= len(body) {
		return nil, false
	}
	return body[offset:min(offset+n, len(body))], true
}

// pulledBody reads a large request body from its caller, one part ahead of the
// reader.
type pulledBody struct {
	parts  chan []byte
	failed chan error
	cancel context.CancelFunc
	rest   []byte
	err    error
}

// PullBody reads the body that a request offers. The reader is for one goroutine;
// it must be closed. Reading fails if the caller goes away.
func PullBody(ctx context.Context, link *Link, m *Msg) (body io.ReadCloser, size int64, err error) {
	subject := get(m.Header, HeaderBody)
	size, ok := getInt(m.Header, HeaderSize)
	if !ok {
		return nil, 0, Errorf(ReasonBadRequest, "the request offers a body without its size")
	}
	if !strings.HasPrefix(subject, "tb.body.") {
		return nil, 0, Errorf(ReasonBadRequest, "the request offers its body on a subject that is not for bodies")
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pulledBody{parts: make(chan []byte, 1), failed: make(chan error, 1), cancel: cancel}
	go p.pull(ctx, link, subject, size)
	return p, size, nil
}

func (p *pulledBody) pull(ctx context.Context, link *Link, subject string, size int64) {
	for at := int64(0); at < size; {
		part, err := pullPart(ctx, link, subject, at)
		if err == nil && (len(part) == 0 || int64(len(part)) > size-at) {
			err = fmt.Errorf("a part of the body has %d bytes", len(part))
		}
		if err != nil {
			p.failed <- err
			return
		}
		at += int64(len(part))
		select {
		case p.parts <- part:
		case <-ctx.Done():
			p.failed <- context.Cause(ctx)
			return
		}
	}
	p.failed <- io.EOF
}

// pullPart asks for one part until it comes: the bus may be away for a while.
func pullPart(ctx context.Context, link *Link, subject string, at int64) ([]byte, error) {
	ask := []byte(strconv.FormatInt(at, 10) + " " + strconv.Itoa(BodyPart))
	until := time.Now().Add(bodyPatience)
	for n := 1; ; n++ {
		tctx, cancel := context.WithTimeout(ctx, partTimeout)
		m, err := link.Bulk.RequestWithContext(tctx, subject, ask)
		cancel()
		if err == nil {
			if e := ErrorFrom(m.Header); e != nil {
				return nil, e
			}
			return m.Data, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if time.Now().After(until) {
			return nil, fmt.Errorf("pull the request body: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(reconnectDelay(n)):
		}
	}
}

func (p *pulledBody) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		select {
		case p.rest = <-p.parts:
		case p.err = <-p.failed:
			// The last part may be waiting beside the end.
			select {
			case p.rest = <-p.parts:
			default:
				return 0, p.err
			}
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *pulledBody) Close() error {
	p.cancel()
	if p.err == nil {
		p.err = errors.New("the body is closed")
	}
	return nil
}
