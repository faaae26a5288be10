package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Sizes of the buffers of a connection to the engine, in bytes. The writer's is
// shared: it is needed only while a request is written.
const (
	wireReadBuffer  = 2 << 10
	wireWriteBuffer = 16 << 10
)

// wire speaks HTTP/1.1 to an engine, with net/http's own encoding and parsing, on
// the goroutine that asks. http.Transport would use two more goroutines a
// connection, which cost two hand-offs a request and, for a stream that is open
// for minutes, a third of its memory. It serves requests whose body is in memory;
// the rest go through http.Transport.
type wire struct {
	addr string // host:port
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	max  int // idle connections kept

	mu   sync.Mutex
	idle []*wireConn // the last is the freshest
}

type wireConn struct {
	net.Conn
	r     *bufio.Reader
	since time.Time // when it became idle
}

// maxIdle bounds the idle connections to an engine that are kept. There are hardly more
// than the agent has slots.
const maxIdle = 4096

var wireWriters = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, wireWriteBuffer) }}

// errStale tells that a reused connection gave no byte of an answer.
var errStale = errors.New("the engine had closed the idle connection")

// do sends a request and reads the head of its response. The request is sent again
// once, on a new connection, if a reused one fails before any byte of an answer.
// The connection is closed when ctx ends, whatever it is doing.
func (w *wire) do(ctx context.Context, req *http.Request) (*http.Response, error) {
	if c := w.take(time.Now()); c != nil {
		resp, err := w.exchange(ctx, c, req, true)
		if !errors.Is(err, errStale) || ctx.Err() != nil {
			return resp, err
		}
		if req.Body, err = req.GetBody(); err != nil {
			return nil, err
		}
	}
	nc, err := w.dial(ctx, "tcp", w.addr)
	if err != nil {
		return nil, err
	}
	return w.exchange(ctx, &wireConn{Conn: nc, r: bufio.NewReaderSize(nc, wireReadBuffer)}, req, false)
}

func (w *wire) exchange(ctx context.Context, c *wireConn, req *http.Request, reused bool) (*http.Response, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	fail := func(err error) (*http.Response, error) {
		stop()
		_ = c.Close()
		return nil, err
	}
	out := wireWriters.Get().(*bufio.Writer)
	out.Reset(c)
	err := req.Write(out)
	if err == nil {
		err = out.Flush()
	}
	out.Reset(nil)
	wireWriters.Put(out)
	// An engine may answer without reading the request to its end, so an answer is
	// looked for even if writing failed.
	if _, perr := c.r.Peek(1); perr != nil {
		if reused {
			return fail(errStale)
		}
		return fail(errors.Join(err, perr))
	}
	for {
		resp, rerr := http.ReadResponse(c.r, req)
		if rerr != nil {
			return fail(rerr)
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		resp.Body = &wireBody{ReadCloser: resp.Body, w: w, c: c, stop: stop, keep: err == nil && !resp.Close}
		return resp, nil
	}
}

// wireBody gives its connection back when it was read to its end, and closes it
// otherwise.
type wireBody struct {
	io.ReadCloser
	w    *wire
	c    *wireConn
	stop func() bool
	keep bool
	done bool
}

func (b *wireBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.done {
		b.done = true
		if b.stop() && b.keep && errors.Is(err, io.EOF) {
			b.w.put(b.c)
		} else {
			_ = b.c.Close()
		}
	}
	return n, err
}

func (b *wireBody) Close() error {
	if b.done {
		return nil
	}
	b.done = true
	b.stop()
	return b.c.Close()
}

// take gives an idle connection that the engine has hardly closed yet, or nil.
func (w *wire) take(now time.Time) *wireConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.idle)
	if n == 0 {
		return nil
	}
	c := w.idle[n-1]
	if now.Sub(c.since) < engineIdle {
		w.idle[n-1] = nil
		w.idle = w.idle[:n-1]
		return c
	}
	// The freshest is too old, so all are.
	w.closeIdle()
	return nil
}

func (w *wire) put(c *wireConn) {
	c.since = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.r.Buffered() > 0 || len(w.idle) >= w.max {
		_ = c.Close()
		return
	}
	w.idle = append(w.idle, c)
}

// tidy closes the connections that are idle for too long.
func (w *wire) tidy(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := 0
	for old < len(w.idle) && now.Sub(w.idle[old].since) >= engineIdle {
		_ = w.idle[old].Close()
		old++
	}
	w.idle = append(w.idle[:0], w.idle[old:]...)
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closeIdle()
}

func (w *wire) closeIdle() {
	for _, c := range w.idle {
		_ = c.Close()
	}
	w.idle = nil
}
