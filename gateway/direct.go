package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// A stream of events goes to an HTTP/1.1 client on the bare connection. What
// net/http keeps for a connection (two buffers, a goroutine with the stack of the
// whole handler) takes more memory than all the rest of a quiet stream, and a write
// passes two buffers. When the stream is over, the connection goes back to net/http
// with the next request.

// client is a connection that was taken from net/http.
type client struct {
	g    *Gateway
	conn net.Conn
	gone context.CancelFunc // called when the client leaves within the stream

	buf *bytes.Buffer // what is not flushed; nil if nothing
	err error         // of a write

	mu    sync.Mutex
	keep  bool   // the client wants to go on
	ahead []byte // the beginning of the next request
	over  bool   // the stream has ended
}

// detach gives the answer to a goroutine of its own, on the bare connection, and
// reports whether it did. After it, the handler has nothing more to do.
func (x *exchange) detach(head *bus.Head) bool {
	if x.written || x.r.ProtoMajor != 1 || x.r.ProtoMinor != 1 || head.Status != http.StatusOK || !isEvents(head.Header) {
		return false
	}
	x.fields(x.w.Header(), head)
	conn, rw, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		return false
	}
	if back, ok := conn.(*returned); ok {
		conn = back.Conn
	}
	c := &client{g: x.g, conn: conn, gone: x.cancel, keep: !x.r.Close && !x.g.leaving.Load()}
	if n := rw.Reader.Buffered(); n > 0 {
		b, _ := rw.Reader.Peek(n)
		c.ahead = append([]byte(nil), b...)
	}
	c.head(x.w.Header())
	x.said(head.Status)
	x.w, x.r, x.out = nil, nil, c
	x.g.detached.add(c)
	go x.run(c)
	if c.ahead == nil {
		go c.watch()
	}
	return true
}

// run writes the stream.
func (x *exchange) run(c *client) {
	defer x.close()
	defer func() {
		if p := recover(); p != nil { // as net/http does: one request is lost, not all
			x.g.log.Error("panic in a stream", "request_id", x.id, "panic", p)
			c.err = io.ErrUnexpectedEOF
		}
		c.end()
	}()
	x.done(x.copy())
}

// head writes the head of the answer, to be flushed with what comes next.
func (c *client) head(h http.Header) {
	b := c.buffer()
	b.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nDate: ")
	b.Write(time.Now().UTC().AppendFormat(b.AvailableBuffer(), http.TimeFormat))
	b.WriteString("\r\n")
	if !c.keep {
		b.WriteString("Connection: close\r\n")
	}
	_ = h.WriteSubset(b, written) // a buffer takes everything
	b.WriteString("\r\n")
}

// written are the fields that head writes itself.
var written = map[string]bool{"Transfer-Encoding": true, "Content-Length": true, "Connection": true, "Date": true}

// bufferMost bounds what waits for a flush; a larger buffer is not kept.
const bufferMost = 64 << 10

// buffers are in use from a write to its flush.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (c *client) buffer() *bytes.Buffer {
	if c.buf == nil {
		c.buf = buffers.Get().(*bytes.Buffer)
	}
	return c.buf
}

// Write adds a chunk. It is with the client after [client.Flush].
func (c *client) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if len(p) == 0 {
		return 0, nil // an empty chunk is the last one
	}
	b := c.buffer()
	b.Write(strconv.AppendUint(b.AvailableBuffer(), uint64(len(p)), 16))
	b.WriteString("\r\n")
	b.Write(p)
	b.WriteString("\r\n")
	if b.Len() >= bufferMost {
		return len(p), c.Flush()
	}
	return len(p), nil
}

// Flush writes what there is.
func (c *client) Flush() error {
	if c.buf == nil || c.err != nil {
		return c.err
	}
	if _, err := c.conn.Write(c.buf.Bytes()); err != nil {
		c.err = fmt.Errorf("connection of the client: %w", err)
	}
	if c.buf.Cap() <= bufferMost {
		c.buf.Reset()
		buffers.Put(c.buf)
	}
	c.buf = nil
	return c.err
}

// SetWriteDeadline bounds writes.
func (c *client) SetWriteDeadline(t time.Time) error { return c.conn.SetWriteDeadline(t) }

// watch waits for the next request on the connection, or for its end.
func (c *client) watch() {
	b := make([]byte, 1)
	n, err := c.conn.Read(b)
	c.mu.Lock()
	over := c.over
	if n > 0 {
		c.ahead = b
	} else {
		c.keep = false
	}
	c.mu.Unlock()
	switch {
	case over && n > 0:
		c.giveBack()
	case over:
		c.close()
	case err != nil:
		c.gone()
	}
}

// end finishes the stream: the connection waits for the next request, or is closed.
func (c *client) end() {
	if c.err == nil {
		c.buffer().WriteString("0\r\n\r\n")
		_ = c.Flush()
	}
	c.mu.Lock()
	c.over = true
	keep, ahead := c.keep && c.err == nil && !c.g.leaving.Load(), c.ahead != nil
	if keep && !ahead {
		_ = c.conn.SetDeadline(time.Now().Add(c.g.cfg.IdleTimeout))
	}
	c.mu.Unlock()
	switch {
	case !keep:
		c.close()
	case ahead:
		c.giveBack()
	default:
		c.g.detached.rest(c)
	}
}

func (c *client) close() {
	_ = c.conn.Close()
	c.g.detached.remove(c)
}

// giveBack lets net/http read the next request.
func (c *client) giveBack() {
	_ = c.conn.SetDeadline(time.Time{})
	c.g.detached.giveBack(&returned{Conn: c.conn, ahead: c.ahead})
	c.g.detached.remove(c)
}

// returned is a connection of which some bytes were read already.
type returned struct {
	net.Conn
	ahead []byte
}

func (r *returned) Read(p []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.Conn.Read(p)
}
