package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

type simCmd struct {
	logFlags
	Listen            string        `help:"Address to listen on." default:"127.0.0.1:8000"`
	Model             []string      `help:"Model that the simulation serves; may be repeated." default:"sim-model" placeholder:"MODEL"`
	Adapter           []string      `help:"LoRA adapter, as ID=PARENT; may be repeated." placeholder:"ID=PARENT"`
	MaxModelLen       int           `help:"Context length in tokens." default:"32768"`
	MaxNumSeqs        int           `help:"Requests that run at one time; more wait." default:"64"`
	PrefillBase       time.Duration `help:"Fixed time of a prefill." default:"5ms"`
	PrefillPer1kChars time.Duration `name:"prefill-per-1k-chars" help:"Time of a prefill for each 1,000 characters that are not cached." default:"10ms"`
	TokenInterval     time.Duration `help:"Time of one decode step; 0 answers at once." default:"20ms"`
	ReplyTokens       int           `help:"Tokens after which a reply ends by itself; 0 is never." default:"0"`
	PrefixCache       bool          `help:"Simulate prefix caching." default:"true" negatable:""`
	PrefixCacheChars  int           `help:"Room of the prefix cache, in characters." default:"262144"`
	APIKey            cli.Secret    `name:"api-key" help:"API key that the simulation asks for."`
	APIKeyFile        string        `name:"api-key-file" help:"File that holds it." placeholder:"FILE"`
	Seed              uint64        `help:"Seed of the generated text." default:"1"`
	LegacyMetrics     bool          `help:"Use the metric names of old vLLM versions, too."`
}

// Examples is printed first by --help.
func (*simCmd) Examples() string {
	return `tokenbus sim --listen 127.0.0.1:8000 --model llama
tokenbus sim --token-interval 0s --prefill-base 0s --prefill-per-1k-chars 0s`
}

// Run serves until ctx ends.
func (c *simCmd) Run(ctx context.Context) error {
	log, err := c.logger()
	if err != nil {
		return err
	}
	key, err := cli.ResolveSecret("api-key", c.APIKey, c.APIKeyFile)
	if err != nil {
		return err
	}
	cfg := sim.Default()
	cfg.Models, cfg.MaxModelLen, cfg.MaxNumSeqs, cfg.ReplyTokens = c.Model, c.MaxModelLen, c.MaxNumSeqs, c.ReplyTokens
	cfg.PrefillBase, cfg.PrefillPer1KChars, cfg.TokenInterval = c.PrefillBase, c.PrefillPer1kChars, c.TokenInterval
	cfg.PrefixCache, cfg.PrefixCacheChars = c.PrefixCache, c.PrefixCacheChars
	cfg.APIKey, cfg.Seed, cfg.LegacyMetrics, cfg.Logger = key.Reveal(), c.Seed, c.LegacyMetrics, log
	for _, a := range c.Adapter {
		id, parent, ok := strings.Cut(a, "=")
		if !ok {
			return fmt.Errorf("--adapter: %q is not ID=PARENT", a)
		}
		if cfg.Adapters == nil {
			cfg.Adapters = make(map[string]string)
		}
		cfg.Adapters[id] = parent
	}
	p := newParts()
	addr, err := startSim(p, "simulation", c.Listen, cfg, log)
	if err != nil {
		return p.stop(err)
	}
	log.Info("simulated vLLM listens; its answers are made up", "url", "http://"+addr, "models", cfg.Models)
	return p.wait(ctx)
}

// startSim runs a simulated engine and gives its address.
func startSim(p *parts, name, listen string, cfg sim.Config, log *slog.Logger) (string, error) {
	s, err := sim.New(cfg)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return "", fmt.Errorf("--listen: %w", err)
	}
	p.start(name, s.Run)
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	p.start(name+" server", func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
		defer stop()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return l.Addr().String(), nil
}
