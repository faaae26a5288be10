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
	schedulerMetrics(a, s)
	if err := a.serve(p, c.processFlags, log); err != nil {
		link.Close()
		return p.stop(err)
	}
	return runWith(ctx, p, "scheduler", link, s.Run)
}

func schedulerMetrics(a *admin, s *schedule.Scheduler) {
	a.gauge("tokenbus_scheduler_agents", "Agents known.", nil, func() float64 { return float64(s.Agents()) })
	a.gauge("tokenbus_scheduler_waiting_requests", "Requests that wait for a free slot.", nil, func() float64 { return float64(s.Waiting()) })
	a.gauge("tokenbus_scheduler_held_requests", "Requests without a first byte yet.", nil, func() float64 { n, _ := s.Held(); return float64(n) })
	a.gauge("tokenbus_scheduler_held_bytes", "Bytes of their bodies.", nil, func() float64 { _, n := s.Held(); return float64(n) })
	count := func(name, help string, f func(schedule.Counters) uint64) {
		a.counter(name, help, nil, func() float64 { return float64(f(s.Counters())) })
	}
	count("tokenbus_scheduler_requests_total", "Requests taken.", func(c schedule.Counters) uint64 { return c.Requests })
	count("tokenbus_scheduler_dispatches_total", "Dispatches to agents.", func(c schedule.Counters) uint64 { return c.Dispatches })
	count("tokenbus_scheduler_refusals_total", "Dispatches that agents refused.", func(c schedule.Counters) uint64 { return c.Refusals })
	count("tokenbus_scheduler_accept_timeouts_total", "Dispatches that no agent answered.", func(c schedule.Counters) uint64 { return c.Timeouts })
	count("tokenbus_scheduler_retries_total", "Tries after a failure.", func(c schedule.Counters) uint64 { return c.Retries })
	count("tokenbus_scheduler_aliased_total", "Requests that named an alias.", func(c schedule.Counters) uint64 { return c.Aliased })
	count("tokenbus_scheduler_shadows_total", "Copies of requests that were sent to another model.", func(c schedule.Counters) uint64 { return c.Shadows })
	count("tokenbus_scheduler_shadows_left_out_total", "Copies that were not sent, for lack of room or because of their form.", func(c schedule.Counters) uint64 { return c.Unshadowed })
	count("tokenbus_scheduler_hedges_total", "Second attempts beside one whose first byte took long.", func(c schedule.Counters) uint64 { return c.Hedges })
	count("tokenbus_scheduler_hedges_won_total", "Second attempts that gave the answer.", func(c schedule.Counters) uint64 { return c.HedgesWon })
	a.gauge("tokenbus_scheduler_policy_version", "Version of the policies in force: the highest revision of those on the bus, or a count of the changes of --policy; 0 is none.", nil, func() float64 { return float64(s.Counters().PolicyVersion) })
	count("tokenbus_scheduler_policies_rejected_total", "Sets of policies on the bus that were not valid, so that those before stayed in force.", func(c schedule.Counters) uint64 { return c.PolicyRejected })
	count("tokenbus_scheduler_queued_total", "Requests that had to wait.", func(c schedule.Counters) uint64 { return c.Queued })
}
