package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/hardware"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

// agentFlags are the settings of an agent, in a process of its own or in up.
type agentFlags struct {
	Capacity          capacity      `help:"Requests that an engine gets at one time; auto is what the engine states, or 64." default:"auto" placeholder:"N|auto"`
	SlowStart         time.Duration `help:"Time in which the capacity of a new or recovered engine grows from one request to its whole; 0 is at once." default:"0s"`
	Region            string        `help:"Region of the agent." default:"local"`
	StreamIdleTimeout time.Duration `help:"Longest silence of an engine within an answer." default:"5m"`
	StallTimeout      time.Duration `help:"Longest time that a client may stop reading its stream." default:"1m"`
	ProbeInterval     time.Duration `help:"Time between probes of an engine's health." default:"1s"`
	ProbeTimeout      time.Duration `help:"Longest time for the answer to a probe." default:"3s"`
	ProbeFailures     int           `help:"Probes in a row without a good answer after which an engine gets no more requests; one that refuses connections gets none at once." default:"3"`
	Warmup            time.Duration `help:"Until its first answer, an engine may leave probes unanswered for so long: it compiles." default:"5m"`
	MetricsInterval   time.Duration `help:"Time between looks at an engine's /metrics; 0 is never." default:"1s"`
	FlushInterval     time.Duration `help:"Time between writes of the lifetime counters." default:"5s"`
	HardwareInterval  time.Duration `help:"Time between readings of GPUs, processors and memory; 0 is never." default:"2s"`
	GPUs              string        `name:"gpus" help:"GPUs that are read: all, none, or a list of indexes and ids." default:"all" placeholder:"all|none|LIST"`
	engineFlags
}

// engineFlags tell how an engine is talked to.
type engineFlags struct {
	EngineKey     cli.Secret `help:"API key of the engine."`
	EngineKeyFile string     `help:"File that holds the API key of the engine." placeholder:"FILE"`
}

// engineKind is a kind of engine, or auto.
type engineKind string

func (f engineFlags) configure(cfg *agent.Config, kind engineKind) error {
	key, err := cli.ResolveSecret("engine-key", f.EngineKey, f.EngineKeyFile)
	if err != nil {
		return err
	}
	cfg.EngineKey = key.Reveal()
	if kind != "auto" {
		cfg.Engine = string(kind)
	}
	return nil
}

func (f agentFlags) config(id, url string, kind engineKind, drain time.Duration, log *slog.Logger) (agent.Config, error) {
	cfg := agent.Default()
	if err := f.configure(&cfg, kind); err != nil {
		return agent.Config{}, err
	}
	cfg.ID, cfg.EngineURL, cfg.Capacity, cfg.Region = id, url, int(f.Capacity), f.Region
	cfg.IdleTimeout, cfg.StallTimeout, cfg.ProbeInterval, cfg.FlushInterval = f.StreamIdleTimeout, f.StallTimeout, f.ProbeInterval, f.FlushInterval
	cfg.MetricsInterval, cfg.SlowStart, cfg.Warmup = f.MetricsInterval, f.SlowStart, f.Warmup
	cfg.ProbeTimeout, cfg.ProbeFailures = f.ProbeTimeout, f.ProbeFailures
	cfg.DrainTimeout, cfg.Machine, cfg.Version, cfg.Log = drain, hostname(), semver(), log
	return cfg, cfg.Validate()
}

// startHardware starts to read the hardware, for all agents of the process.
func (f agentFlags) startHardware(p *parts, log *slog.Logger) (func() *bus.Hardware, error) {
	s, err := hardware.New(hardware.Config{Interval: f.HardwareInterval, GPUs: f.GPUs, Log: log})
	if err != nil {
		return nil, err
	}
	p.start("hardware", s.Run)
	return s.Latest, nil
}

// capacity is a number of requests, or auto, which is 0.
type capacity int

// UnmarshalText implements [encoding.TextUnmarshaler].
func (c *capacity) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*c = 0
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is neither auto nor a number of requests", text)
	}
	*c = capacity(n)
	return nil
}

type agentCmd struct {
	processFlags
	natsFlags
	agentFlags
	ID           string        `help:"Identity of the agent, unique in the fleet; its counters are kept under it. Its default is the host's name." placeholder:"NAME"`
	EngineURL    string        `help:"Base URL of the engine." default:"http://127.0.0.1:8000" placeholder:"URL"`
	Engine       engineKind    `help:"Kind of the engine; auto finds it out." enum:"auto,vllm,sglang,llamacpp,ollama,infinity,tei,openai" default:"auto"`
	Provider     string        `help:"The engine is an outside provider, openai or anthropic, which gets requests only where the fallback_provider of a policy says so." placeholder:"NAME"`
	Model        string        `help:"Serve only this model of the engine." placeholder:"MODEL"`
	Machine      string        `help:"Machine that the agent says it is on; its default is the host's name." placeholder:"NAME"`
	Organization string        `help:"Organization that the agent says it belongs to." placeholder:"NAME"`
	Tags         []string      `help:"Tags that the agent says it has." placeholder:"TAG"`
	GPUModel     string        `name:"gpu-model" help:"GPU model that the agent says it has." placeholder:"NAME"`
	DrainTimeout time.Duration `help:"How long requests under way may take when the agent is told to stop." default:"10m"`
}

// Examples is printed first by --help.
func (*agentCmd) Examples() string {
	return `tokenbus agent --id gpu-1 --engine-url http://127.0.0.1:8000 --capacity 64
tokenbus agent --nats nats://bus:4222 --creds gpu-1.creds --id gpu-1 --region eu --tags production`
}

// Run serves until ctx ends.
func (c *agentCmd) Run(ctx context.Context) error {
	log, err := c.start()
	if err != nil {
		return err
	}
	if c.ID == "" {
		c.ID = hostname()
	}
	cfg, err := c.config(c.ID, c.EngineURL, c.Engine, c.DrainTimeout, log)
	if err != nil {
		return err
	}
	cfg.Provider = c.Provider
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Model, cfg.Organization, cfg.Tags, cfg.GPUModel = c.Model, c.Organization, c.Tags, c.GPUModel
	if c.Machine != "" {
		cfg.Machine = c.Machine
	}
	p := newParts()
	if cfg.Hardware, err = c.startHardware(p, log); err != nil {
		return p.stop(err)
	}
	link, err := c.dial(ctx, "tokenbus agent "+c.ID, 1, log)
	if err != nil {
		return p.stop(err)
	}
	a, err := agent.New(cfg, link)
	if err != nil {
		link.Close()
		return p.stop(err)
	}
	adm := newAdmin(func() bool { return a.Record().Status == bus.StatusReady })
	adm.registry.MustRegister(agent.Metrics(a))
	adm.watchLink(p, link)
	if err := adm.serve(p, c.processFlags, log); err != nil {
		link.Close()
		return p.stop(err)
	}
	return runWith(ctx, p, "agent", link, a.Run)
}
