package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// Config is what an agent needs.
type Config struct {
	ID        string // persistent identity, unique in the fleet
	EngineURL string // base URL of the engine, without /v1
	EngineKey string // the engine's own API key, optional
	Engine    string // kind of the engine, one of those of package agent/engine; empty: it is found out
	Model     string // serve only this model; empty: all that the engine lists
	// Provider names the outside provider at EngineURL, openai or anthropic, which gets
	// requests only where a policy says so; empty: it is an engine of the fleet.
	Provider string
	Capacity int // requests at one time; 0: what the engine states, or 64

	Region       string
	Machine      string
	Organization string
	Tags         []string
	GPUModel     string
	Version      string // of the binary

	DrainTimeout    time.Duration // how long a stopping agent lets its work finish
	IdleTimeout     time.Duration // silence of the engine within a stream that ends it
	StallTimeout    time.Duration // how long a caller may leave its window full
	ProbeInterval   time.Duration // between health probes
	ProbeTimeout    time.Duration // of one probe
	ProbeFailures   int           // probes in a row without a good answer after which the engine counts as ill
	Warmup          time.Duration // until its first answer, an engine that was ready may leave probes unanswered for so long: it compiles
	SlowStart       time.Duration // in which the capacity of a new or recovered engine grows to its whole; 0: at once
	MetricsInterval time.Duration // between looks at the engine's metrics; 0: none
	FlushInterval   time.Duration // between writes of the lifetime counters

	// Hardware gives what is known of the host now, or nil; package agent/hardware reads
	// it, once for all agents of a process. Nobody changes what it points to.
	Hardware func() *bus.Hardware

	// Dial replaces the connection to the engine, for engines that listen in memory.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	Log  *slog.Logger
}

// Default is the configuration that everything not set falls back to.
func Default() Config {
	return Config{
		Region:       "local",
		DrainTimeout: 10 * time.Minute, IdleTimeout: 5 * time.Minute, StallTimeout: time.Minute,
		ProbeInterval: time.Second, ProbeTimeout: 3 * time.Second, ProbeFailures: 3, Warmup: 5 * time.Minute,
		MetricsInterval: time.Second, FlushInterval: 5 * time.Second,
	}
}

// Validate reports everything that is wrong, each with the flag that sets it.
func (c Config) Validate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
	}
	if err := bus.CheckID("agent id", c.ID); err != nil {
		bad("id", "%v", err)
	}
	if err := bus.CheckID("region", c.Region); err != nil {
		bad("region", "%v", err)
	}
	u, err := url.Parse(c.EngineURL)
	switch {
	case c.EngineURL == "":
		bad("engine-url", "is missing; it is the base URL of the engine, such as http://127.0.0.1:8000")
	case err != nil:
		bad("engine-url", "%v", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		bad("engine-url", "%q is not an http or https URL", u.Redacted())
	}
	if c.Provider != "" && c.Provider != providerOpenAI && c.Provider != providerAnthropic {
		bad("provider", "%q is neither openai nor anthropic", c.Provider)
	}
	if _, err := engine.Find(c.Engine); c.Engine != "" && err != nil {
		bad("engine", "%v", err)
	}
	if c.Capacity < 0 || c.Capacity > bus.MaxCapacity {
		bad("capacity", "%d is not between 1 and %d", c.Capacity, bus.MaxCapacity)
	}
	if c.ProbeFailures < 1 || c.ProbeFailures > 1000 {
		bad("probe-failures", "%d is not between 1 and 1000", c.ProbeFailures)
	}
	for flag, d := range map[string]time.Duration{
		"drain-timeout": c.DrainTimeout, "stream-idle-timeout": c.IdleTimeout, "stall-timeout": c.StallTimeout,
		"probe-interval": c.ProbeInterval, "probe-timeout": c.ProbeTimeout, "flush-interval": c.FlushInterval,
	} {
		if d <= 0 {
			bad(flag, "%v is not positive", d)
		}
	}
	for flag, d := range map[string]time.Duration{"warmup": c.Warmup, "slow-start": c.SlowStart} {
		if d < 0 {
			bad(flag, "%v is negative", d)
		}
	}
	if d := c.MetricsInterval; d != 0 && (d < minMetricsInterval || d > maxMetricsInterval) {
		bad("metrics-interval", "%v is neither 0 nor between %v and %v; a measurement counts for %v", d, minMetricsInterval, maxMetricsInterval, signalsFor)
	}
	return errors.Join(errs...)
}
