package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
	"github.com/tokenbus/tokenbus/gateway"
	"github.com/tokenbus/tokenbus/schedule"
)

// process is one part of the fleet with a wire of its own.
type process struct {
	name   string
	wire   *bustest.Wire
	link   *bus.Link
	stop   func() // gracefully
	done   chan struct{}
	err    error // what it ended with, once done
	ending atomic.Bool
	gone   atomic.Bool // it was killed: its counts mean nothing
}

// kill takes the process off the bus at once, as SIGKILL does: nothing is said.
func (p *process) kill() {
	if p.ending.Swap(true) {
		<-p.done
		return
	}
	p.gone.Store(true)
	p.wire.Down()
	p.link.Close()
	p.stop()
	<-p.done
}

// end stops the process as SIGTERM does.
func (p *process) end() {
	if p.ending.Swap(true) {
		<-p.done
		return
	}
	p.stop()
	<-p.done
	p.link.Close()
}

type engine struct {
	sim    *sim.Server
	listen *bustest.Listener
	stop   func()
}

type agentProcess struct {
	*process
	*agent.Agent
	engine *engine
}

// kill also closes the sockets to the engine.
func (a *agentProcess) kill() {
	a.wire.Down()
	a.engine.listen.Cut()
	a.process.kill()
}

type schedulerProcess struct {
	*process
	*schedule.Scheduler
}

type gatewayProcess struct {
	*process
	*gateway.Gateway
	listen *bustest.Listener
	http   *http.Client
}

// fleet is everything, in one bubble.
type fleet struct {
	t          testing.TB
	failf      func(format string, args ...any) // reports a broken invariant
	log        *slog.Logger
	bus        *bustest.Bus
	engines    []*engine
	agents     []*agentProcess
	schedulers []*schedulerProcess
	gateways   []*gatewayProcess
}

func newFleet(t testing.TB) *fleet {
	f := &fleet{t: t, failf: t.Errorf, log: slog.New(slog.DiscardHandler), bus: bustest.NewBus(t, "")}
	if os.Getenv("TOKENBUS_TEST_LOG") != "" {
		f.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return f
}

// newTrio is the smallest fleet: one engine with a fault, its agent, a scheduler and
// a gateway, all ready.
func newTrio(t testing.TB, fault sim.Fault, capacity int, edits ...func(*gateway.Config)) (*fleet, *engine, *gatewayProcess) {
	t.Helper()
	f := newFleet(t)
	e := f.addEngine(engineConfig())
	if _, err := e.sim.Inject(fault); err != nil {
		t.Fatal(err)
	}
	f.addAgent("a", e, capacity)
	f.addScheduler()
	g := f.addGateway(edits...)
	time.Sleep(2 * time.Second)
	return f, e, g
}

func (f *fleet) spawn(name string, wire *bustest.Wire, link *bus.Link, run func(context.Context) error) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{name: name, wire: wire, link: link, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		if p.err = run(ctx); p.err != nil {
			f.log.Error("process ended", "name", name, "err", p.err)
		}
	}()
	return p
}

func (f *fleet) addEngine(cfg sim.Config) *engine {
	f.t.Helper()
	s, err := sim.New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := bustest.NewListener()
	srv := &http.Server{Handler: s.Handler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	wg.Go(func() { _ = srv.Serve(l) })
	e := &engine{sim: s, listen: l, stop: func() { _ = srv.Close(); l.Cut(); cancel(); wg.Wait() }}
	f.engines = append(f.engines, e)
	return e
}

func (f *fleet) addAgent(id string, e *engine, capacity int, edits ...func(*agent.Config)) *agentProcess {
	f.t.Helper()
	wire := f.bus.NewWire()
	link := wire.Link(f.t, id, f.log)
	cfg := agent.Default()
	cfg.ID, cfg.EngineURL, cfg.Capacity, cfg.Dial, cfg.Log = id, "http://engine", capacity, e.listen.Dial, f.log
	cfg.Version, cfg.DrainTimeout = "0.0.0", time.Minute
	for _, edit := range edits {
		edit(&cfg)
	}
	a, err := agent.New(cfg, link)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &agentProcess{f.spawn(id, wire, link, a.Run), a, e}
	f.agents = append(f.agents, p)
	return p
}

func (f *fleet) addScheduler() *schedulerProcess {
	f.t.Helper()
	wire := f.bus.NewWire()
	link := wire.Link(f.t, "scheduler", f.log)
	cfg := schedule.Default()
	cfg.Version, cfg.Log = "0.0.0", f.log
	s, err := schedule.New(cfg, link)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &schedulerProcess{f.spawn("scheduler", wire, link, s.Run), s}
	f.schedulers = append(f.schedulers, p)
	return p
}

func (f *fleet) addGateway(edits ...func(*gateway.Config)) *gatewayProcess {
	f.t.Helper()
	wire := f.bus.NewWire()
	link := wire.Link(f.t, "gateway", f.log)
	cfg := gateway.Default()
	cfg.Version, cfg.Log = "0.0.0", f.log
	for _, edit := range edits {
		edit(&cfg)
	}
	l := bustest.NewListener()
	g, err := gateway.New(cfg, link, l)
	if err != nil {
		f.t.Fatal(err)
	}
	p := &gatewayProcess{f.spawn("gateway", wire, link, g.Run), g, l, &http.Client{
		Transport: &http.Transport{DialContext: l.Dial, DisableKeepAlives: true},
	}}
	f.gateways = append(f.gateways, p)
	return p
}

// close ends everything; the bubble then checks that no goroutine is left.
func (f *fleet) close() {
	for _, g := range f.gateways {
		g.listen.Cut()
		g.end()
		g.http.CloseIdleConnections()
	}
	for _, s := range f.schedulers {
		s.end()
	}
	for _, a := range f.agents {
		a.end()
	}
	for _, e := range f.engines {
		e.stop()
	}
	f.bus.Stop()
}

// settle waits until every count is back to zero, and fails if one is not
// (invariant 3).
func (f *fleet) settle() {
	f.t.Helper()
	var left string
	for range 300 {
		left = f.left()
		if left == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.failf("invariant 3: after 30 s of rest: %s", left)
}

func (f *fleet) left() string {
	var b strings.Builder
	for _, a := range f.agents {
		if a.gone.Load() {
			continue
		}
		if n, m := a.Active(), a.Streams(); n != 0 || m != 0 {
			fmt.Fprintf(&b, "agent %s has %d active, %d streams; ", a.name, n, m)
		}
	}
	for _, s := range f.schedulers {
		if s.gone.Load() {
			continue
		}
		if n, m := s.Held(); n != 0 || m != 0 || s.Waiting() != 0 {
			fmt.Fprintf(&b, "a scheduler holds %d requests, %d bytes, %d waiting; ", n, m, s.Waiting())
		}
	}
	for _, g := range f.gateways {
		if n, m := g.Counters().Active, g.Client().Active(); n != 0 || m != 0 {
			fmt.Fprintf(&b, "a gateway has %d active, %d calls; ", n, m)
		}
	}
	for i, e := range f.engines {
		if c := e.sim.Counts(); c.InFlight != 0 {
			fmt.Fprintf(&b, "engine %d has %d in flight; ", i, c.InFlight)
		}
	}
	return b.String()
}

// script is a stream of n events with pauses, the same for every request.
func script(n int, pause time.Duration) (sim.Fault, []byte) {
	fault := sim.Fault{Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "text/event-stream"}}
	var all bytes.Buffer
	add := func(text string) {
		fault.Pieces = append(fault.Pieces, sim.Piece{DelayMS: pause.Milliseconds(), Text: text})
		all.WriteString(text)
	}
	for i := range n {
		add(fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"%d\"}}]}\n\n", i))
	}
	add("data: [DONE]\n\n")
	return fault, all.Bytes()
}

// result is what a client saw.
type result struct {
	id     int
	status int
	body   []byte
	err    error
	took   time.Duration
	first  time.Time // when the first byte of the body came; zero if none did
}

func requestBody(id int, stream bool) string {
	return fmt.Sprintf(`{"model":"m","stream":%v,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"request-%d-"}]}`, stream, id)
}

// ask sends one request with a body that names it.
func (g *gatewayProcess) ask(ctx context.Context, id int, stream bool) (r result) {
	began := time.Now()
	defer func() { r.took = time.Since(began) }()
	r.id = id
	body := requestBody(id, stream)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		r.err = err
		return r
	}
	resp, err := g.http.Do(req)
	if err != nil {
		r.err = err
		return r
	}
	defer resp.Body.Close()
	r.status = resp.StatusCode
	one := make([]byte, 1)
	if n, err := io.ReadFull(resp.Body, one); n == 0 {
		r.err = err
		return r
	}
	r.first = time.Now()
	rest, err := io.ReadAll(resp.Body)
	r.body, r.err = append(one, rest...), err
	return r
}
