package integration

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/gateway"
	"github.com/tokenbus/tokenbus/schedule"
)

// model is what the engine serves: an id with all that has to be escaped.
const model = "org/model-1.5"

// options are what a test changes of its system.
type options struct {
	sim         sim.Config
	agent       agent.Config
	schedule    schedule.Config
	gateway     gateway.Config
	agents      int // beside the one engine
	noScheduler bool
	engine      func(http.Handler) http.Handler // stands before the simulated engine
}

// system is one of everything.
type system struct {
	t         testing.TB
	nats      *bus.Server
	sim       *sim.Server
	engine    *httptest.Server
	agents    []*agent.Agent
	scheduler *schedule.Scheduler // nil with noScheduler
	gateway   *gateway.Gateway
	url       string // of the gateway
	http      *http.Client
	began     time.Time

	log   *slog.Logger
	links []*bus.Link
	stops map[string]func() // by the name of a part
}

// start starts a system and waits until it serves.
func start(t testing.TB, change ...func(*options)) *system {
	t.Helper()
	o := options{sim: sim.Instant(), agent: agent.Default(), schedule: schedule.Default(), gateway: gateway.Default(), agents: 1}
	o.sim.Models = []string{model}
	o.gateway.Listen = "127.0.0.1:0"
	for _, f := range change {
		f(&o)
	}
	s := &system{t: t, stops: make(map[string]func()), log: slog.New(slog.DiscardHandler), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if os.Getenv("TOKENBUS_TEST_LOG") != "" {
		s.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	var err error
	s.nats, err = bus.NewServer(bus.ServerConfig{Name: bus.NewID(), Listen: "127.0.0.1:0", DataDir: t.TempDir(), Domain: "t"})
	check(t, err)
	t.Cleanup(s.nats.Close)
	t.Cleanup(func() {
		for _, l := range s.links {
			l.Close()
		}
	})
	s.startEngine(o)
	for i := range o.agents {
		cfg := o.agent
		cfg.ID, cfg.EngineURL, cfg.Version, cfg.Log = string(rune('a'+i)), s.engine.URL, "0.0.0", s.log
		a, err := agent.New(cfg, s.dial("agent"))
		check(t, err)
		s.agents = append(s.agents, a)
		s.run("agent", a.Run)
	}
	if !o.noScheduler {
		o.schedule.Version, o.schedule.Log = "0.0.0", s.log
		s.scheduler, err = schedule.New(o.schedule, s.dial("scheduler"))
		check(t, err)
		s.run("scheduler", s.scheduler.Run)
	}
	o.gateway.Version, o.gateway.Log = "0.0.0", s.log
	s.gateway, err = gateway.New(o.gateway, s.dial("gateway"), nil)
	check(t, err)
	s.url = "http://" + s.gateway.Addr().String()
	s.run("gateway", s.gateway.Run)
	t.Cleanup(func() {
		s.settle()
		s.http.CloseIdleConnections()
	})
	s.began = time.Now()
	if !o.noScheduler {
		s.ready()
	}
	return s
}

func (s *system) startEngine(o options) {
	s.t.Helper()
	var err error
	s.sim, err = sim.New(o.sim)
	check(s.t, err)
	s.run("engine", s.sim.Run)
	h := s.sim.Handler()
	if o.engine != nil {
		h = o.engine(h)
	}
	s.engine = httptest.NewUnstartedServer(h)
	s.engine.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	s.engine.Start()
	s.t.Cleanup(func() {
		s.engine.CloseClientConnections()
		s.engine.Close()
	})
}

// dial makes the connections of one part.
func (s *system) dial(name string) *bus.Link {
	s.t.Helper()
	l, err := bus.Dial(s.t.Context(), bus.Config{Name: name, URLs: []string{s.nats.URL()}, Shards: 2, Log: s.log})
	check(s.t, err)
	s.links = append(s.links, l)
	return l
}

// run runs a part until the test ends, or stops it; parts stop in reverse order.
func (s *system) run(name string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				s.t.Errorf("%s: Run: %v", name, err)
			}
		case <-time.After(20 * time.Second):
			s.t.Errorf("%s: Run did not return within 20 s", name)
		}
	})
	s.stops[name] = stop
	s.t.Cleanup(stop)
}

// stop stops a part.
func (s *system) stop(name string) {
	s.t.Helper()
	s.stops[name]()
}

// ready waits until a request passes through all parts.
func (s *system) ready() {
	s.t.Helper()
	eventually(s.t, 10*time.Second, "the gateway is ready and lists models", func() bool {
		return s.gateway.Ready() && len(s.gateway.Models()) > 0
	})
	eventually(s.t, 10*time.Second, "all agents are known to the scheduler", func() bool {
		return s.scheduler.Agents() == len(s.agents)
	})
	eventually(s.t, 10*time.Second, "a request passes", func() bool {
		return s.post("/tokenize", `{"model":"`+model+`","prompt":"hello"}`).status == http.StatusOK
	})
	s.rest()
	s.sim.ClearRecord()
}

// settle waits until every count is back to zero, and fails if one is not
// (invariant 3).
func (s *system) settle() {
	s.t.Helper()
	var left string
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); pause() {
		if left = s.left(); left == "" {
			return
		}
	}
	s.t.Errorf("invariant 3: after 5 s of rest: %s", left)
}

// rest is settle for use within a test.
func (s *system) rest() {
	s.t.Helper()
	s.settle()
	if s.t.Failed() {
		s.t.FailNow()
	}
}

func (s *system) left() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"; ", args...) }
	for _, a := range s.agents {
		if n, m := a.Active(), a.Streams(); n != 0 || m != 0 {
			say("agent %s has %d active, %d streams", a.Record().ID, n, m)
		}
	}
	if s.scheduler != nil {
		if n, m := s.scheduler.Held(); n != 0 || m != 0 || s.scheduler.Waiting() != 0 {
			say("the scheduler holds %d requests, %d bytes, %d waiting", n, m, s.scheduler.Waiting())
		}
	}
	if n, m := s.gateway.Counters().Active, s.gateway.Client().Active(); n != 0 || m != 0 {
		say("the gateway has %d active, %d calls", n, m)
	}
	if c := s.sim.Counts(); c.InFlight != 0 {
		say("the engine has %d in flight", c.InFlight)
	}
	return b.String()
}
