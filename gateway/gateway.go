package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// Limits of the HTTP server.
const (
	readHeaderTimeout = 10 * time.Second
	maxHeaderBytes    = 64 << 10
)

// Gateway serves HTTP clients from the bus.
type Gateway struct {
	cfg      Config
	link     *bus.Link
	log      *slog.Logger
	client   *bus.Client
	fleet    *bus.Fleet
	listener net.Listener
	server   *http.Server
	detached *detached
	leaving  atomic.Bool
	counters counters
	meters   *meters
}

// New makes a gateway on a link that the caller dialled and closes. The address is
// bound here, so port 0 works; see [Gateway.Addr]. A listener, if given, takes the
// place of cfg.Listen.
func New(cfg Config, link *bus.Link, listener net.Listener) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, link: link, log: cfg.Log}
	var err error
	if g.client, err = bus.NewClient(link); err != nil {
		return nil, err
	}
	if g.fleet, err = bus.WatchFleet(link); err != nil {
		return nil, err
	}
	g.meters = newMeters(g.fleet.Serves)
	if g.listener = listener; listener == nil {
		if g.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
			g.fleet.Close()
			return nil, fmt.Errorf("listen for clients (--listen): %w", err)
		}
	}
	g.detached = newDetached(g.listener.Addr())
	g.server = &http.Server{
		Handler: g.routes(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: cfg.IdleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug), Protocols: new(http.Protocols),
	}
	g.server.Protocols.SetHTTP1(true)
	g.server.Protocols.SetUnencryptedHTTP2(true)
	return g, nil
}

// Addr is the address that clients connect to.
func (g *Gateway) Addr() net.Addr { return g.listener.Addr() }

// Client is the gateway's bus client, for its statistics.
func (g *Gateway) Client() *bus.Client { return g.client }

// Run serves until ctx ends, then lets the requests under way finish within the
// drain timeout.
func (g *Gateway) Run(ctx context.Context) error {
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var bg sync.WaitGroup
	bg.Go(func() { _ = g.client.Run(run) })
	svc, err := g.link.Announce("tokenbus-gateway", g.cfg.Version, "Tokenbus gateway", map[string]string{
		"id": g.client.ID(), "listen": g.Addr().String(),
	})
	if err == nil {
		served := make(chan error, 2)
		bg.Go(func() { served <- g.server.Serve(g.listener) })
		bg.Go(func() { served <- g.server.Serve(g.detached) })
		select {
		case err = <-served:
			_ = g.server.Close()
		case <-ctx.Done():
			err = g.shutdown(run)
		}
		svc.Stop()
	} else {
		_ = g.listener.Close()
	}
	stop()
	bg.Wait()
	_ = g.detached.shutdown(run) // what was detached too late for the first one
	g.fleet.Close()
	return err
}

func (g *Gateway) shutdown(ctx context.Context) error {
	g.leaving.Store(true)
	if n := g.client.Active(); n > 0 {
		g.log.Info("draining", "active", n, "timeout", g.cfg.DrainTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.DrainTimeout)
	defer cancel()
	err := g.server.Shutdown(ctx) // first: until then, streams may still be detached
	err = errors.Join(err, g.detached.shutdown(ctx))
	if errors.Is(err, context.DeadlineExceeded) {
		g.log.Warn("drain timeout; requests under way are cut", "active", g.client.Active())
		return g.server.Close()
	}
	return err
}
