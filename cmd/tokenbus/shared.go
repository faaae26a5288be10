package main

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

// logFlags are the flags of every command that runs.
type logFlags struct {
	LogLevel  string `help:"Least level to log." enum:"debug,info,warn,error" default:"info"`
	LogFormat string `help:"Log format; auto is text on a terminal and JSON elsewhere." enum:"auto,text,json" default:"auto"`
}

func (f logFlags) logger() (*slog.Logger, error) {
	return cli.NewLogger(os.Stderr, f.LogLevel, f.LogFormat, cli.IsTerminal(os.Stderr))
}

// processFlags are the flags of every process of a deployment.
type processFlags struct {
	logFlags
	AdminListen   string `help:"Address of the operator side: /admin, /health, /ready, /metrics. Empty turns it off." default:"" placeholder:"HOST:PORT"`
	MetricsListen string `help:"Address for Prometheus and probes alone: /metrics, /health, /ready, and nothing that changes anything. It may be beyond loopback: whoever reaches it sees the names of models and agents and their load. Empty turns it off." default:"" placeholder:"HOST:PORT"`
	Pprof         bool   `help:"Serve profiles below /debug/pprof on the operator side."`
	Procs         int    `help:"Threads that run Go code; 0 is a quarter of the cores, at least one: passing work between threads costs more than the work." default:"0"`
}

// start prepares the process: the logger, and the runtime for work that is mostly
// short-lived garbage.
func (f processFlags) start() (*slog.Logger, error) {
	switch {
	case f.Procs > 0:
		runtime.GOMAXPROCS(f.Procs)
	case os.Getenv("GOMAXPROCS") == "":
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0)/coresPerProc, 1))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	return f.logger()
}

// coresPerProc is how many cores there are for each thread that runs Go code. The
// work of a role is many short pieces, and waking another thread costs more than
// most of them take (docs/benchmarks.md).
const coresPerProc = 4

// gcPercent lets the heap grow further between collections than Go's default: the
// live heap of every role is small.
const gcPercent = 400

// natsFlags tell how a process reaches the bus.
type natsFlags struct {
	NATS  []string `name:"nats" help:"NATS server; may be repeated." default:"nats://127.0.0.1:4222" placeholder:"URL"`
	Creds string   `help:"NATS credentials file." placeholder:"FILE"`
}

// dial connects to the bus, and says so while it waits.
func (f natsFlags) dial(ctx context.Context, name string, shards int, log *slog.Logger) (*bus.Link, error) {
	return bus.Dial(ctx, bus.Config{Name: name, URLs: f.NATS, CredsFile: f.Creds, Shards: shards, Log: log})
}

// runWith runs a part on a link of its own until ctx ends.
func runWith(ctx context.Context, p *parts, name string, link *bus.Link, run func(context.Context) error) error {
	p.onStop(name+" link", func() { link.Close() })
	keepEvents(p, link)
	p.start(name, run)
	return p.wait(ctx)
}

// keepEvents makes the stream of events as soon as JetStream answers. A process that may
// not leaves it to the others; tokenbus status tells if there is none.
func keepEvents(p *parts, link *bus.Link) {
	p.start("JetStream wait", func(ctx context.Context) error {
		if link.WaitJetStream(ctx) == nil {
			_ = link.EnsureEvents(ctx)
		}
		return nil
	})
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return h
}
