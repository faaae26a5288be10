package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// announce makes the agent a micro service with its commands.
func (a *Agent) announce() (*bus.Service, error) {
	cmd := func(verb string, f func(arg []byte) (any, error)) bus.Command {
		return bus.Command{Name: verb, Subject: bus.CommandSubject(a.cfg.ID, verb), Run: f}
	}
	order := func(verb string, edit func(orderArg) (func(*bus.Order), error)) bus.Command {
		return cmd(verb, func(data []byte) (any, error) {
			arg, err := parseOrderArg(data)
			if err != nil {
				return nil, err
			}
			f, err := edit(arg)
			if err != nil {
				return nil, err
			}
			warning, err := a.change(func(o *bus.Order) {
				o.Reason, o.By = arg.Reason, arg.By
				f(o)
			})
			return bus.OrderAnswer{Record: a.snapshot(), Warning: warning}, err
		})
	}
	return a.link.Announce("tokenbus-agent", a.cfg.Version, "Tokenbus agent beside one engine",
		map[string]string{"id": a.cfg.ID, "epoch": a.epoch, "region": a.cfg.Region},
		cmd("ping", func([]byte) (any, error) { return a.snapshot(), nil }),
		order("drain", func(arg orderArg) (func(*bus.Order), error) {
			var cut time.Time
			if arg.TimeoutMS > 0 {
				cut = clock().Add(time.Duration(arg.TimeoutMS) * time.Millisecond)
			}
			return func(o *bus.Order) { o.Drain, o.CutAt = true, cut }, nil
		}),
		order("cordon", func(orderArg) (func(*bus.Order), error) {
			return func(o *bus.Order) { o.Cordon = true }, nil
		}),
		order("resume", func(orderArg) (func(*bus.Order), error) {
			return func(o *bus.Order) { o.Drain, o.Cordon = false, false }, nil
		}),
		order("capacity", func(arg orderArg) (func(*bus.Order), error) {
			if arg.Capacity == nil {
				e := bus.Errorf(bus.ReasonBadRequest, `capacity: is missing; say {"capacity":32}, or 0 for the agent's own`)
				e.Param = "capacity"
				return nil, e
			}
			return func(o *bus.Order) { o.Capacity = *arg.Capacity }, nil
		}),
		cmd("load", a.adapterCommand(a.loadAdapter)),
		cmd("unload", a.adapterCommand(a.unloadAdapter)),
		cmd("jobs", func([]byte) (any, error) { return a.listJobs(time.Now()), nil }),
		cmd("check", func([]byte) (any, error) { return a.check(), nil }),
	)
}

// maxJobs bounds the requests that are named at once.
const maxJobs = 1000

// listJobs names the requests in flight, the oldest first.
func (a *Agent) listJobs(now time.Time) bus.Jobs {
	list := bus.Jobs{Agent: a.cfg.ID, Jobs: []bus.Job{}}
	a.mu.Lock()
	for j := range a.jobs {
		state := "waiting"
		if j.begun.Load() {
			state = "answering"
		}
		list.Jobs = append(list.Jobs, bus.Job{
			Request: j.named, Attempt: j.attempt, Agent: a.cfg.ID, Model: j.model, Alias: j.alias, API: string(j.api), Stream: j.stream,
			State: state, Tokens: j.tokens, ElapsedMS: now.Sub(j.taken).Milliseconds(), Started: j.taken,
		})
	}
	a.mu.Unlock()
	slices.SortFunc(list.Jobs, func(x, y bus.Job) int {
		return cmp.Or(x.Started.Compare(y.Started), cmp.Compare(x.Attempt, y.Attempt))
	})
	if n := len(list.Jobs); n > maxJobs {
		list.Jobs, list.Omitted = list.Jobs[:maxJobs], n-maxJobs
	}
	return list
}

// checkTimeout bounds a one-token request; an engine may compile for it.
const checkTimeout = 30 * time.Second

// check asks the engine for one token, beside the slots.
func (a *Agent) check() bus.Check {
	a.mu.Lock()
	models := a.record.Models
	a.mu.Unlock()
	c := a.engine.check(a.base, models)
	c.Agent = a.cfg.ID
	return c
}

func (e *engineClient) check(ctx context.Context, models []bus.Model) bus.Check {
	var c bus.Check
	if len(models) == 0 {
		c.Error = "the engine lists no model"
		return c
	}
	c.Model = models[0].ID
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	began := time.Now()
	api, err := e.generate(ctx, c.Model)
	c.API, c.MS = string(api), time.Since(began).Milliseconds()
	c.OK, c.Error = err == nil, reason(err)
	return c
}

// Examination is what an engine that has no agent was found to be.
type Examination struct {
	Check bus.Check // one token of its first model
	Kind  string
	Info  engine.Info
	// NoMetrics tells that its kind shows metrics, and this one shows none.
	NoMetrics bool
}

// CheckEngine examines an engine that has no agent; of the configuration its URL, key
// and kind count.
func CheckEngine(ctx context.Context, cfg Config) (x Examination, err error) {
	cfg.ID = "check"
	if err := cfg.Validate(); err != nil {
		return x, err
	}
	e, err := newEngine(cfg)
	if err != nil {
		return x, err
	}
	defer e.close()
	kind, err := e.find(ctx)
	if err != nil {
		return x, err
	}
	x.Kind = kind.Name
	if err := kind.Health(ctx, e); err != nil {
		return x, err
	}
	models, err := kind.Models(ctx, e)
	if err != nil {
		return x, err
	}
	if x.Info = kind.Info(ctx, e); x.Info.Asleep {
		return x, engine.ErrAsleep
	}
	var s scanner
	var p enginePage
	switch err := e.metrics(ctx, &s, &p, cfg.ProbeTimeout); {
	case err != nil:
		x.NoMetrics = len(kind.Metrics.Running) > 0
	case p.caching != unknown:
		caching := p.caching == on
		x.Info.PrefixCaching = &caching
	}
	x.Check = e.check(ctx, models)
	return x, nil
}
