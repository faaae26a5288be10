package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
	"github.com/tokenbus/tokenbus/schedule"
)

// schedulerFlags are the settings of a scheduler, in a process of its own or in up.
type schedulerFlags struct {
	AcceptTimeout time.Duration `help:"Longest time for an agent to accept or refuse a request." default:"800ms"`
	QueueTimeout  time.Duration `help:"Longest wait for a free slot." default:"1m"`
	HoldTimeout   time.Duration `help:"How long requests wait for a model that was served before and that no agent serves now; 0 refuses them at once." default:"0s"`
	QueueDepth    int           `help:"Requests that may wait for one model." default:"4096"`
	MaxBytes      cli.Bytes     `help:"Bytes of request bodies that the scheduler holds at one time." default:"512MiB"`
	MaxTries      int           `help:"Tries of one request at each step of its policy that sets no max_tries; refusals are not counted." default:"3"`
	PrefixEntries int           `help:"Entries of the prefix index (one block of a prompt at one agent, about 100 bytes each)." default:"1048576"`
	Decisions     int           `help:"Records of decisions that are kept for tokenbus explain; 0 keeps none." default:"2048"`
	Policy        []string      `help:"Policy document, or directory of them, to go by instead of the policies on the bus; changes are seen within 2 s; may be repeated." placeholder:"PATH"`
}

func (f schedulerFlags) config(log *slog.Logger) schedule.Config {
	return schedule.Config{
		AcceptTimeout: f.AcceptTimeout, QueueTimeout: f.QueueTimeout, HoldTimeout: f.HoldTimeout, QueueDepth: f.QueueDepth, MaxBytes: int(f.MaxBytes),
		MaxTries: f.MaxTries, PrefixEntries: f.PrefixEntries, Decisions: f.Decisions, PolicyFiles: len(f.Policy) > 0,
		Version: semver(), Log: log,
	}
}

type schedulerCmd struct {
	processFlags
	natsFlags
	schedulerFlags
}

// Examples is printed first by --help.
func (*schedulerCmd) Examples() string { return `tokenbus scheduler --nats nats://127.0.0.1:4222` }

// Run serves until ctx ends.
func (c *schedulerCmd) Run(ctx context.Context) error {
	log, err := c.start()
	if err != nil {
		return err
	}
	cfg := c.config(log)
	if err := cfg.Validate(); err != nil {
		return err
	}
	link, err := c.dial(ctx, "tokenbus scheduler", 1, log)
	if err != nil {
		return err
	}
	s, err := schedule.New(cfg, link)
	if err != nil {
		link.Close()
		return err
	}
	p := newParts()
	if err := c.startPolicies(p, s, log); err != nil {
		link.Close()
		return p.stop(err)
	}
	a := newAdmin(link.Connected)
	a.registry.MustRegister(s.Metrics())
	a.watchLink(p, link)
	if err := a.serve(p, c.processFlags, log); err != nil {
		link.Close()
		return p.stop(err)
	}
	return runWith(ctx, p, "scheduler", link, s.Run)
}
