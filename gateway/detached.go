package gateway

import (
	"context"
	"net"
	"sync"
)

// detached knows the connections that net/http does not, and is the listener that
// gives them back to it.
type detached struct {
	addr net.Addr
	back chan net.Conn
	done chan struct{}
	once sync.Once

	mu      sync.Mutex
	clients map[*client]bool // whether it rests
	empty   chan struct{}    // closed when the last one has gone; nil if nobody waits
	leaving bool
}

func newDetached(addr net.Addr) *detached {
	return &detached{addr: addr, back: make(chan net.Conn), done: make(chan struct{}), clients: make(map[*client]bool)}
}

// Accept implements [net.Listener].
func (d *detached) Accept() (net.Conn, error) {
	select {
	case c := <-d.back:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (d *detached) Close() error {
	d.once.Do(func() { close(d.done) })
	return nil
}

// Addr implements [net.Listener].
func (d *detached) Addr() net.Addr { return d.addr }

func (d *detached) giveBack(c net.Conn) {
	select {
	case d.back <- c:
	case <-d.done:
		_ = c.Close()
	}
}

func (d *detached) add(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[c] = false
}

// rest notes that a connection waits for its next request.
func (d *detached) rest(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.clients[c]; ok {
		d.clients[c] = true
		if d.leaving {
			_ = c.conn.Close() // its watch removes it
		}
	}
}

func (d *detached) remove(c *client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.clients, c)
	if len(d.clients) == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// shutdown closes the connections that rest, and waits for the streams until ctx
// ends; then it cuts them, and gives the error of ctx.
func (d *detached) shutdown(ctx context.Context) error {
	d.mu.Lock()
	d.leaving = true
	for c, rests := range d.clients {
		if rests {
			_ = c.conn.Close()
		}
	}
	if len(d.clients) == 0 {
		d.mu.Unlock()
		return nil
	}
	empty := make(chan struct{})
	d.empty = empty
	d.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	d.mu.Lock()
	for c := range d.clients {
		_ = c.conn.Close()
		c.gone()
	}
	d.mu.Unlock()
	<-empty
	return ctx.Err()
}
