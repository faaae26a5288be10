package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
	"github.com/tokenbus/tokenbus/gateway"
	"github.com/tokenbus/tokenbus/schedule"
)

var errNoHome = errors.New("--data: is missing, and the user has no home directory to take a default from")

// gatewayFlags are the settings of a gateway, in a process of its own or in up.
type gatewayFlags struct {
	BodyLimit      cli.Bytes     `help:"Largest request body." default:"64MiB"`
	RequestTimeout time.Duration `help:"Longest time to the first byte of a stream, or to the end of any other answer." default:"10m"`
	ReadTimeout    time.Duration `help:"Longest time for a client to send its body." default:"5m"`
	IdleTimeout    time.Duration `help:"Longest time that a connection may be without a request." default:"2m"`
	AllowAnyone    bool          `help:"Listen beyond loopback although clients need no credentials: whoever reaches the address may use every model."`
	SSEKeepalive   time.Duration `name:"sse-keepalive" help:"Send an SSE comment after each such silence of a stream, and its status early; 0 is never." default:"0s"`
}

func (f gatewayFlags) config(listen string, drain time.Duration, log *slog.Logger) gateway.Config {
	cfg := gateway.Default()
	cfg.Listen, cfg.BodyLimit, cfg.Timeout, cfg.ReadTimeout = listen, int64(f.BodyLimit), f.RequestTimeout, f.ReadTimeout
	cfg.IdleTimeout, cfg.KeepAlive, cfg.DrainTimeout = f.IdleTimeout, f.SSEKeepalive, drain
	cfg.Version, cfg.Log = semver(), log
	return cfg
}

// checkListen refuses to serve strangers unless told to.
func (f gatewayFlags) checkListen(listen string, log *slog.Logger) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if bus.Loopback(host) {
		return nil
	}
	if !f.AllowAnyone {
		return fmt.Errorf("--listen: refusing %q: clients need no credentials yet, so anybody who reaches it could use every model; "+
			"listen on 127.0.0.1 behind a proxy that asks for credentials, or say --allow-anyone", listen)
	}
	log.Warn("anybody who reaches this address may use every model (--allow-anyone)", "listen", listen)
	return nil
}

type gatewayCmd struct {
	processFlags
	natsFlags
	gatewayFlags
	schedulerFlags
	LocalScheduler bool          `help:"Run a scheduler in this process, too: requests that come here skip two passages over the bus." default:"true" negatable:""`
	Listen         string        `help:"Address for HTTP clients." default:"127.0.0.1:8080"`
	Shards         int           `help:"NATS connections for answers." default:"1"`
	DrainTimeout   time.Duration `help:"How long requests under way may take when the gateway is told to stop." default:"10m"`
}

// Examples is printed first by --help.
func (*gatewayCmd) Examples() string {
	return `tokenbus gateway --nats nats://127.0.0.1:4222
tokenbus gateway --no-local-scheduler
tokenbus gateway --nats nats://bus-1:4222 --nats nats://bus-2:4222 --creds gateway.creds --listen 127.0.0.1:8080`
}

// Run serves until ctx ends.
func (c *gatewayCmd) Run(ctx context.Context) error {
	log, err := c.start()
	if err != nil {
		return err
	}
	cfg := c.gatewayFlags.config(c.Listen, c.DrainTimeout, log)
	if err := errors.Join(cfg.Validate(), c.checkListen(c.Listen, log)); err != nil {
		return err
	}
	link, err := c.dial(ctx, "tokenbus gateway", c.Shards, log)
	if err != nil {
		return err
	}
	g, err := gateway.New(cfg, link, nil)
	if err != nil {
		link.Close()
		return err
	}
	p := newParts()
	a := newAdmin(g.Ready)
	a.registry.MustRegister(g.Metrics())
	a.watchLink(p, link)
	if c.LocalScheduler {
		if err := c.localScheduler(ctx, p, a, g, log); err != nil {
			link.Close()
			return p.stop(err)
		}
	}
	if err := a.serve(p, c.processFlags, log); err != nil {
		link.Close()
		return p.stop(err)
	}
	log.Info("gateway listens", "url", "http://"+g.Addr().String())
	return runWith(ctx, p, "gateway", link, g.Run)
}

// localScheduler runs a scheduler beside the gateway. It stops after the gateway.
func (c *gatewayCmd) localScheduler(ctx context.Context, p *parts, a *admin, g *gateway.Gateway, log *slog.Logger) error {
	cfg := c.schedulerFlags.config(log)
	if err := cfg.Validate(); err != nil {
		return err
	}
	link, err := c.dial(ctx, "tokenbus scheduler", 1, log)
	if err != nil {
		return err
	}
	p.onStop("scheduler link", link.Close)
	s, err := schedule.New(cfg, link)
	if err != nil {
		return err
	}
	if err := c.startPolicies(p, s, log); err != nil {
		return err
	}
	a.registry.MustRegister(s.Metrics())
	g.Client().UseScheduler(s.Take)
	p.start("scheduler", s.Run)
	return nil
}
