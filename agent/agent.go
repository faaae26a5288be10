package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tokenbus/tokenbus/bus"
)

// Agent serves one engine on the bus.
type Agent struct {
	cfg       Config
	link      *bus.Link
	log       *slog.Logger
	engine    *engineClient
	slots     *slots
	responder *bus.Responder
	notifier  *bus.Notifier
	epoch     string
	base      context.Context // of the work; set once, when Run begins

	suspect chan struct{}
	dirty   chan struct{} // the state changed
	full    chan struct{} // the record changed
	write   chan struct{} // the bucket is behind

	book book // owned by the goroutine that keeps the record

	work    sync.WaitGroup // requests in flight
	workers chan *job      // taken by goroutines that have finished another request

	srtt     smoothed // from dispatch to first byte
	promises promises
	heard    heard
	claimed  claimed
	orders   orders
	adapters adapters
	relist   atomic.Bool // read the models anew

	mu       sync.Mutex
	record   bus.Record // all but its State and what is measured
	measured measured
	jobs     map[*job]struct{}
	seen     map[string]bool // models ever served
}

// New makes an agent on a link that the caller dialled and closes. Nothing is
// said on the bus before [Agent.Run].
func New(cfg Config, link *bus.Link) (*Agent, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{
		cfg: cfg, link: link, log: cfg.Log.With("agent", cfg.ID), epoch: bus.NewID(),
		suspect: make(chan struct{}, 1), dirty: make(chan struct{}, 1), full: make(chan struct{}, 1),
		write: make(chan struct{}, 1), workers: make(chan *job),
		jobs: make(map[*job]struct{}), seen: make(map[string]bool),
	}
	a.record = bus.Record{
		Engine: cfg.Engine, Provider: cfg.Provider, EngineHealth: bus.HealthStarting, Version: cfg.Version, Region: cfg.Region, Machine: cfg.Machine,
		Organization: cfg.Organization, Tags: cfg.Tags, GPUModel: cfg.GPUModel, Started: time.Now(),
	}
	a.slots = newSlots(cfg.ID, a.epoch, cfg.Capacity)
	a.slots.slow, a.slots.changed = cfg.SlowStart, a.beatSoon
	link.OnDisconnect(func() { a.slots.count(func(t *tally) { t.counts.Disconnections++ }) })
	a.notifier = bus.NewNotifier(link, a.slots.now)
	var err error
	if a.engine, err = newEngine(cfg); err != nil {
		return nil, err
	}
	if a.responder, err = bus.NewResponder(link, cfg.ID, a.epoch, cfg.StallTimeout); err != nil {
		return nil, err
	}
	return a, nil
}

// Active is the number of requests that hold a slot.
func (a *Agent) Active() int { return a.slots.active() }

// Streams is the number of answers that are open, or lingering until their end is
// acknowledged.
func (a *Agent) Streams() int { return a.responder.Streams() }

// Run serves until ctx ends, then drains: it refuses new work, finishes what it has
// within the drain timeout, takes its record back and returns. It returns an error at
// once if another process serves under the same id, and it drains and returns an error
// if one has taken the id over while this one could not be reached.
func (a *Agent) Run(ctx context.Context) error {
	defer a.engine.close()
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	unclaim, err := a.claim(ctx, lost)
	if err != nil {
		return err
	}
	defer unclaim()
	// What the work needs outlives ctx by the drain.
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	a.base = run
	var bg errgroup.Group
	background := func(f func(context.Context) error) { bg.Go(func() error { return f(run) }) }
	background(a.responder.Run)
	background(a.notifier.Run)

	if err := a.readBook(run); err != nil {
		a.log.Warn("lifetime counters can't be read yet; they are added when they can", "err", err)
	}
	a.readOrder(run)
	background(a.probe)
	background(a.beat)
	background(a.keepRecord)
	background(a.watchJobs)
	background(a.keepClaim)
	background(a.followOrders)
	background(a.keepAdapters)
	if a.cfg.MetricsInterval > 0 {
		background(a.watchEngine)
	}
	err = a.serve(ctx, run)
	a.abortAll()
	a.work.Wait()
	stop()
	_ = bg.Wait()
	a.leave(context.WithoutCancel(ctx))
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, ErrHeld) {
		return cause
	}
	return err
}

// serve takes dispatches until ctx ends, and drains.
func (a *Agent) serve(ctx, run context.Context) error {
	req, err := a.link.Subscribe(a.link.Data[0], bus.DispatchSubject(a.cfg.ID, a.epoch), "", a.dispatch)
	if err != nil {
		return err
	}
	defer func() { _ = req.Unsubscribe() }()
	poll, err := a.link.Subscribe(a.link.Control, bus.PollSubject, "", func(*bus.Msg) { a.beatNow(true) })
	if err != nil {
		return err
	}
	defer func() { _ = poll.Unsubscribe() }()
	svc, err := a.announce()
	if err != nil {
		return err
	}
	defer svc.Stop()
	<-ctx.Done()
	a.drain(run)
	return nil
}

// drain waits until the work in flight is done and its ends were acknowledged.
func (a *Agent) drain(ctx context.Context) {
	a.slots.update(func(s *slots) { s.stopping = true })
	a.beatNow(true)
	if n := a.Active(); n > 0 {
		a.log.Info("draining", "active", n, "timeout", a.cfg.DrainTimeout)
	}
	until := time.Now().Add(a.cfg.DrainTimeout)
	for a.Active() > 0 {
		if time.Now().After(until) {
			a.log.Warn("drain timeout; work in flight is cut", "active", a.Active())
			a.abortAll()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	a.work.Wait()
	a.responder.Settle(ctx)
}

func (a *Agent) event(kind string, doc any) { a.link.PublishJSON(bus.EventSubject(kind, ""), doc) }

// Record is what the agent says of itself now.
func (a *Agent) Record() bus.Record { return a.snapshot() }
