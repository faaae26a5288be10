package bustest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// buffered gives a net.Pipe the buffer that a kernel gives a socket: what the
// other side writes is taken at once. Without it, a client that writes while it
// holds a lock and a server that writes to that client wait for each other for
// ever.
type buffered struct {
	net.Conn

	mu       sync.Mutex
	cond     *sync.Cond
	data     []byte
	err      error
	deadline time.Time
	timer    *time.Timer
}

func newBuffered(c net.Conn) *buffered {
	b := &buffered{Conn: c}
	b.cond = sync.NewCond(&b.mu)
	go b.pump()
	return b
}

func (b *buffered) pump() {
	buf := make([]byte, 32<<10)
	for {
		n, err := b.Conn.Read(buf)
		b.mu.Lock()
		b.data = append(b.data, buf[:n]...)
		if err != nil {
			b.err = err
		}
		b.cond.Broadcast()
		b.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.data) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		if !b.deadline.IsZero() && !time.Now().Before(b.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		b.cond.Wait()
	}
	n := copy(p, b.data)
	if b.data = b.data[n:]; len(b.data) == 0 {
		b.data = nil
	}
	return n, nil
}

// SetReadDeadline implements net.Conn.
func (b *buffered) SetReadDeadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if b.deadline = t; !t.IsZero() {
		b.timer = time.AfterFunc(time.Until(t), func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.cond.Broadcast()
		})
	}
	return nil
}

// SetDeadline implements net.Conn.
func (b *buffered) SetDeadline(t time.Time) error {
	_ = b.SetReadDeadline(t)
	return b.Conn.SetWriteDeadline(t)
}

// Close implements net.Conn.
func (b *buffered) Close() error {
	b.mu.Lock()
	if b.err == nil {
		b.err = io.ErrClosedPipe
	}
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	b.cond.Broadcast()
	b.mu.Unlock()
	return b.Conn.Close()
}
