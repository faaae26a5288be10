package bustest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

// Bus is an embedded NATS server that can be restarted under its clients.
type Bus struct {
	t   testing.TB
	cfg bus.ServerConfig
	one chan struct{} // held while the server starts or stops; a mutex would stop virtual time

	mu  sync.Mutex
	srv *bus.Server
}

// NewBus starts a server without a socket. With a data directory it has JetStream.
func NewBus(t testing.TB, dataDir string) *Bus {
	t.Helper()
	b := &Bus{t: t, one: make(chan struct{}, 1), cfg: bus.ServerConfig{Name: "test", DataDir: dataDir, Domain: "test"}}
	b.Start()
	return b
}

// Start starts the server, again after [Bus.Stop]. It does nothing if it runs.
func (b *Bus) Start() {
	b.t.Helper()
	b.one <- struct{}{}
	defer func() { <-b.one }()
	if b.running() != nil {
		return
	}
	srv, err := bus.NewServer(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	b.srv = srv
	b.mu.Unlock()
}

// UseDisk gives the server JetStream from its next start on.
func (b *Bus) UseDisk(dir string) { b.cfg.DataDir = dir }

// Stop stops the server and cuts all its connections.
func (b *Bus) Stop() {
	b.one <- struct{}{}
	defer func() { <-b.one }()
	b.mu.Lock()
	srv := b.srv
	b.srv = nil
	b.mu.Unlock()
	if srv != nil {
		srv.Close()
	}
}

func (b *Bus) running() *bus.Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.srv
}

func (b *Bus) conn() (net.Conn, error) {
	srv := b.running()
	if srv == nil {
		return nil, errors.New("the bus is down")
	}
	return srv.InProcessConn()
}

// Wire is the network of one process: all its connections to the bus.
type Wire struct {
	bus *Bus

	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

// NewWire makes the network of one process.
func (b *Bus) NewWire() *Wire { return &Wire{bus: b} }

// InProcessConn implements [bus.InProcess].
func (w *Wire) InProcessConn() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errors.New("the wire is cut")
	}
	c, err := w.bus.conn()
	if err != nil {
		return nil, err
	}
	b := newBuffered(c)
	w.conns = append(w.conns, b)
	return b, nil
}

// Cut breaks the connections there are; new ones can be made.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// Down breaks the connections and refuses new ones, until [Wire.Up].
func (w *Wire) Down() {
	w.mu.Lock()
	w.down = true
	w.mu.Unlock()
	w.Cut()
}

// Up allows connections again.
func (w *Wire) Up() {
	w.mu.Lock()
	w.down = false
	w.mu.Unlock()
}

// Link dials the bus over the wire.
func (w *Wire) Link(t testing.TB, name string, log *slog.Logger) *bus.Link {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := bus.Dial(ctx, bus.Config{Name: name, InProcess: w, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
