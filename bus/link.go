package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Reconnecting: the first try at once, then with growing, jittered pauses. The cap
// stays under half the time after which a silent peer is given up, so that all
// sides of a stream come back before any of them gives up (design.md §8).
const (
	reconnectFirst = 40 * time.Millisecond
	reconnectCap   = 800 * time.Millisecond
	dialTimeout    = 2 * time.Second
	waitReminder   = 5 * time.Second
	pendingMsgs    = -1
	pendingBytes   = 256 << 20
)

// InProcess makes connections to an embedded server.
type InProcess interface {
	InProcessConn() (net.Conn, error)
}

// Config tells how a process reaches the bus.
type Config struct {
	Name      string    // of the process; shown by the server for each connection
	URLs      []string  // of NATS servers
	CredsFile string    // NATS credentials, optional
	InProcess InProcess // an embedded server, instead of URLs
	Shards    int       // data connections of a caller; 0 is 1
	Log       *slog.Logger
}

// Link is the set of connections of one process. Data, bulk and control traffic do
// not share one: a large body never delays a token, and a stalled JetStream call
// never delays either.
type Link struct {
	Data    []*nats.Conn // requests and frames
	Bulk    *nats.Conn   // parts of large request bodies
	Control *nats.Conn   // beats, KV, commands
	JS      jetstream.JetStream

	log *slog.Logger

	mu           sync.Mutex
	reconnected  []func()
	disconnected []func()
}

// Dial connects to the bus and waits until it answers, for as long as ctx allows:
// processes may start in any order. The caller must call [Link.Close].
func Dial(ctx context.Context, cfg Config) (*Link, error) {
	if len(cfg.URLs) == 0 && cfg.InProcess == nil {
		return nil, errors.New("no NATS server is named")
	}
	l := &Link{log: cfg.Log}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	for i := range max(cfg.Shards, 1) {
		nc, err := l.connect(ctx, cfg, fmt.Sprintf("%s data %d", cfg.Name, i))
		if err != nil {
			l.Close()
			return nil, err
		}
		l.Data = append(l.Data, nc)
	}
	var err error
	if l.Bulk, err = l.connect(ctx, cfg, cfg.Name+" bulk"); err != nil {
		l.Close()
		return nil, err
	}
	if l.Control, err = l.connect(ctx, cfg, cfg.Name+controlSuffix); err != nil {
		l.Close()
		return nil, err
	}
	if l.JS, err = jetstream.New(l.Control); err != nil {
		l.Close()
		return nil, fmt.Errorf("open JetStream: %w", err)
	}
	return l, nil
}

func (l *Link) connect(ctx context.Context, cfg Config, name string) (*nats.Conn, error) {
	opts := nats.GetDefaultOptions()
	opts.Name = name
	opts.Servers = cfg.URLs
	opts.MaxReconnect = -1
	opts.ReconnectBufSize = -1 // stale tokens are garbage; the ring is what replays
	opts.Timeout = dialTimeout
	opts.PingInterval, opts.MaxPingsOut = pingInterval, maxPingsOut
	opts.SubChanLen = 1 << 16
	opts.CustomReconnectDelayCB = reconnectDelay
	opts.IgnoreAuthErrorAbort = true
	opts.AsyncErrorCB = func(_ *nats.Conn, sub *nats.Subscription, err error) {
		subject := ""
		if sub != nil {
			subject = sub.Subject
		}
		l.log.Warn("bus error", "connection", name, "subject", subject, "err", err)
	}
	opts.DisconnectedErrCB = func(_ *nats.Conn, err error) {
		if err == nil {
			return // we closed it
		}
		l.log.Warn("bus connection lost", "connection", name, "err", err)
		if strings.HasSuffix(name, controlSuffix) {
			l.run(&l.disconnected)
		}
	}
	opts.ReconnectedCB = func(nc *nats.Conn) {
		l.log.Info("bus connection back", "connection", name, "server", nc.ConnectedServerName())
		l.run(&l.reconnected)
	}
	if cfg.InProcess != nil {
		if err := nats.InProcessServer(cfg.InProcess)(&opts); err != nil {
			return nil, err
		}
	}
	if cfg.CredsFile != "" {
		if err := nats.UserCredentials(cfg.CredsFile)(&opts); err != nil {
			return nil, fmt.Errorf("use NATS credentials: %w", err)
		}
	}
	said := time.Time{}
	for attempt := 1; ; attempt++ {
		nc, err := opts.Connect()
		if err == nil {
			return nc, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connect to the bus: %w: %w", ctx.Err(), err)
		}
		if time.Since(said) > waitReminder {
			said = time.Now()
			l.log.Info("waiting for the bus", "servers", redacted(cfg.URLs), "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to the bus: %w: %w", ctx.Err(), err)
		case <-time.After(reconnectDelay(attempt)):
		}
	}
}

// redacted gives server URLs without their passwords.
func redacted(servers []string) []string {
	out := make([]string, 0, len(servers))
	for _, s := range servers {
		if u, err := url.Parse(s); err == nil {
			s = u.Redacted()
		} else {
			s = "(not a URL)"
		}
		out = append(out, s)
	}
	return out
}

// reconnectDelay is the pause before the n-th try: exponential, half of it random.
func reconnectDelay(n int) time.Duration {
	d := reconnectCap
	if n < 6 {
		d = min(reconnectFirst<<max(n-1, 0), reconnectCap)
	}
	return d/2 + rand.N(d/2)
}

// controlSuffix ends the name of the control connection.
const controlSuffix = " control"

func (l *Link) run(of *[]func()) {
	l.mu.Lock()
	list := *of
	l.mu.Unlock()
	for _, f := range list {
		f()
	}
}

// OnReconnect registers f to run after any of the connections came back. f must
// not block.
func (l *Link) OnReconnect(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reconnected = append(l.reconnected[:len(l.reconnected):len(l.reconnected)], f)
}

// OnDisconnect registers f to run when the bus is lost: when the control connection
// broke. f must not block.
func (l *Link) OnDisconnect(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disconnected = append(l.disconnected[:len(l.disconnected):len(l.disconnected)], f)
}

// Connected reports whether all data connections are up.
func (l *Link) Connected() bool {
	for _, nc := range l.Data {
		if !nc.IsConnected() {
			return false
		}
	}
	return true
}

// Flush sends what is buffered and waits until the servers have seen it. ctx must
// have a deadline.
func (l *Link) Flush(ctx context.Context) error {
	for _, nc := range l.conns() {
		if err := nc.FlushWithContext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Close closes all connections. Nothing is drained: whoever owns work stops it
// first.
func (l *Link) Close() {
	for _, nc := range l.conns() {
		nc.Close()
	}
}

func (l *Link) conns() []*nats.Conn {
	var all []*nats.Conn
	all = append(all, l.Data...)
	for _, nc := range []*nats.Conn{l.Bulk, l.Control} {
		if nc != nil {
			all = append(all, nc)
		}
	}
	return all
}

// subscribe adds a subscription whose queue is bounded by bytes only.
func subscribe(nc *nats.Conn, subject, group string, f func(*Msg)) (*nats.Subscription, error) {
	var sub *nats.Subscription
	var err error
	if group == "" {
		sub, err = nc.Subscribe(subject, f)
	} else {
		sub, err = nc.QueueSubscribe(subject, group, f)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	if err := sub.SetPendingLimits(pendingMsgs, pendingBytes); err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return sub, nil
}

// Subscribe adds a subscription on one of the link's connections, with a queue
// group unless group is empty. f runs on one goroutine and must not block.
func (l *Link) Subscribe(nc *nats.Conn, subject, group string, f func(*Msg)) (*nats.Subscription, error) {
	return subscribe(nc, subject, group, f)
}
