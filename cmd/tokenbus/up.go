package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/gateway"
	"github.com/tokenbus/tokenbus/schedule"
)

type upCmd struct {
	logFlags
	gatewayFlags
	schedulerFlags
	agentFlags
	Engine       []string      `help:"Engine to serve, with a name for its agent if wanted; may be repeated. Without one, 127.0.0.1:8000-8010 are searched." placeholder:"[NAME=]URL"`
	EngineKind   engineKind    `help:"Kind of the engines; auto finds out each." enum:"auto,vllm,sglang,llamacpp,ollama,infinity,tei,openai" default:"auto"`
	Demo         bool          `help:"Start three simulated engines that serve two models."`
	Listen       string        `help:"Address for HTTP clients." default:"127.0.0.1:8080"`
	AdminListen  string        `help:"Address of the operator side: /admin, /health, /ready, /metrics. Empty turns it off." default:"127.0.0.1:9090"`
	NATSListen   string        `name:"nats-listen" help:"Address for NATS clients. Empty turns it off." default:"127.0.0.1:4222"`
	Data         string        `help:"Directory of JetStream; its default is below the user's data directory." placeholder:"DIR"`
	DrainTimeout time.Duration `help:"How long requests under way may take when the process is told to stop." default:"30s"`
	Pprof        bool          `help:"Serve profiles below /debug/pprof on the operator side."`
}

// Examples is printed first by --help.
func (*upCmd) Examples() string {
	return `tokenbus up --demo
tokenbus up
tokenbus up --engine http://127.0.0.1:8000 --engine b=http://127.0.0.1:8001 --capacity 64`
}

// Run serves until ctx ends.
func (c *upCmd) Run(ctx context.Context) error {
	process := processFlags{logFlags: c.logFlags, AdminListen: c.AdminListen, Pprof: c.Pprof, Procs: runtime.GOMAXPROCS(0)}
	log, err := process.start()
	if err != nil {
		return err
	}
	if err := c.checkListen(c.Listen, log); err != nil {
		return err
	}
	engines, err := c.engines(ctx)
	if err != nil {
		return err
	}
	if c.Data == "" {
		if c.Data, err = dataDir("up"); err != nil {
			return err
		}
	}
	p := newParts()
	if err := lockDir(p, c.Data); err != nil {
		return p.stop(err)
	}
	srv, err := bus.NewServer(bus.ServerConfig{Name: "up", Listen: c.NATSListen, DataDir: c.Data, Domain: "tokenbus", SyncAlways: true})
	if err != nil {
		return p.stop(err)
	}
	p.onStop("NATS server", srv.Close)
	if c.Demo {
		demo, err := startDemo(p, log)
		if err != nil {
			return p.stop(err)
		}
		engines = append(engines, demo...)
	}
	var g *gateway.Gateway
	adm := newAdmin(func() bool { return g.Ready() })
	adm.registry.MustRegister(serverCollector{srv})
	if g, err = c.startParts(ctx, p, srv, engines, adm, log); err != nil {
		return p.stop(err)
	}
	if err := adm.serve(p, process, log); err != nil {
		return p.stop(err)
	}
	c.welcome(ctx, os.Stdout, srv, g)
	return p.wait(ctx)
}

// namedEngine is an engine and the id of its agent.
type namedEngine struct{ name, url string }

// engines are those that were named, or found.
func (c *upCmd) engines(ctx context.Context) ([]namedEngine, error) {
	var list []namedEngine
	names := make(map[string]bool)
	for _, e := range c.Engine {
		name, target, ok := strings.Cut(e, "=")
		if !ok || strings.Contains(name, "/") {
			name, target = "", e
		}
		u, err := url.Parse(target)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("--engine: %q is not [NAME=]URL, such as http://127.0.0.1:8000", e)
		}
		if name == "" {
			name = strings.ReplaceAll(u.Host, ":", "-")
		}
		if names[name] {
			return nil, fmt.Errorf("--engine: two engines are named %q", name)
		}
		names[name] = true
		list = append(list, namedEngine{name, target})
	}
	if len(list) > 0 || c.Demo {
		return list, nil
	}
	list = searchEngines(ctx)
	if len(list) == 0 {
		return nil, fmt.Errorf("no OpenAI-compatible server answers on 127.0.0.1:%d-%d; name one with --engine URL, or try --demo, which simulates some", searchFirst, searchLast)
	}
	return list, nil
}

// startDemo starts the simulated engines of the demo.
func startDemo(p *parts, log *slog.Logger) ([]namedEngine, error) {
	var list []namedEngine
	for i, model := range []string{"demo/small", "demo/small", "demo/large"} {
		cfg := sim.Default()
		cfg.Models, cfg.Logger, cfg.Seed = []string{model}, log, uint64(i+1)
		if model == "demo/large" {
			cfg.TokenInterval *= 2
		}
		name := fmt.Sprintf("demo-%d", i+1)
		addr, err := startSim(p, name, "127.0.0.1:0", cfg, log)
		if err != nil {
			return nil, err
		}
		list = append(list, namedEngine{name, "http://" + addr})
	}
	return list, nil
}

// startParts starts agents, scheduler and gateway on the embedded server.
func (c *upCmd) startParts(ctx context.Context, p *parts, srv *bus.Server, engines []namedEngine, adm *admin, log *slog.Logger) (*gateway.Gateway, error) {
	link := func(name string) (*bus.Link, error) {
		l, err := bus.Dial(ctx, bus.Config{Name: name, InProcess: srv, Log: log})
		if err == nil {
			p.onStop(name+" link", l.Close)
		}
		return l, err
	}
	read, err := c.startHardware(p, log)
	if err != nil {
		return nil, err
	}
	var agents []*agent.Agent
	for _, e := range engines {
		cfg, err := c.agentFlags.config(e.name, e.url, c.EngineKind, c.DrainTimeout, log)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", e.name, err)
		}
		cfg.Hardware = read
		l, err := link("tokenbus agent " + e.name)
		if err != nil {
			return nil, err
		}
		a, err := agent.New(cfg, l)
		if err != nil {
			return nil, err
		}
		agents = append(agents, a)
		p.start("agent "+e.name, a.Run)
	}
	adm.registry.MustRegister(agent.Metrics(agents...))
	l, err := link("tokenbus scheduler")
	if err != nil {
		return nil, err
	}
	s, err := schedule.New(c.schedulerFlags.config(log), l)
	if err != nil {
		return nil, err
	}
	if err := c.startPolicies(p, s, log); err != nil {
		return nil, err
	}
	adm.registry.MustRegister(s.Metrics())
	p.start("scheduler", s.Run)
	if l, err = link("tokenbus gateway"); err != nil {
		return nil, err
	}
	g, err := gateway.New(c.gatewayFlags.config(c.Listen, c.DrainTimeout, log), l, nil)
	if err != nil {
		return nil, err
	}
	adm.registry.MustRegister(g.Metrics())
	adm.watchLink(p, l)
	keepEvents(p, l)
	g.Client().UseScheduler(s.Take)
	p.start("gateway", g.Run)
	return g, nil
}

// welcome waits until requests can be served and prints what to paste.
func (c *upCmd) welcome(ctx context.Context, w io.Writer, srv *bus.Server, g *gateway.Gateway) {
	said := time.Now()
	for !g.Ready() || len(g.Models()) == 0 {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			fmt.Fprintln(w, "waiting for an engine to list its models")
		}
	}
	base, model := "http://"+g.Addr().String(), g.Models()[0]
	fmt.Fprintf(w, "\nTokenbus is ready. Models: %s\n\n", strings.Join(g.Models(), ", "))
	if c.Demo {
		fmt.Fprint(w, "The engines are simulated: their answers are made up.\n\n")
	}
	fmt.Fprintf(w, "  curl %s/v1/chat/completions -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"stream\":true}'\n\n", base, model)
	fmt.Fprintf(w, "  export OPENAI_BASE_URL=%s/v1 OPENAI_API_KEY=none\n\n", base)
	if srv.URL() != "" {
		fmt.Fprintf(w, "  nats -s %s req '%s' '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n\n", srv.URL(), bus.RequestSubject(model, bus.Chat))
	}
}
