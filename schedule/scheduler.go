package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
	"github.com/tokenbus/tokenbus/schedule/prefix"
	"github.com/tokenbus/tokenbus/schedule/queue"
)

// Scheduler gives requests to agents.
type Scheduler struct {
	cfg    Config
	id     string
	link   *bus.Link
	log    *slog.Logger
	holder *bus.Holder

	mu        sync.Mutex
	fleet     *fleet
	policies  *policy.Set
	pool      policy.Pool
	index     *prefix.Index
	gossip    gossip
	decisions decisions
	budget    budget
	hedges    float64 // that may be started
	seed      uint64
	tickets   map[string]*ticket // by id
	waiting   queue.Fair[*ticket]
	peers     map[string]peer
	announced map[string]int // models for which the last beat said that requests wait
	drains    map[string]*drain
	loads     loads
	woken     map[string]time.Time // models for which a wake event was said
	next      uint64
	bytes     int  // of the bodies held
	open      bool // it takes requests
	leaving   bool
	up        bool      // the bus was there at the last tick
	settled   time.Time // when old requests may be touched again
	counters  Counters
	meters    meters
}

// Counters are what a scheduler has done so far.
type Counters struct {
	Requests    uint64
	Dispatches  uint64
	Refusals    uint64 // by agents
	Timeouts    uint64 // dispatches that no agent answered
	Retries     uint64 // tries after a failure
	Unbudgeted  uint64 // retries that the retry budget did not allow
	Hedges      uint64 // second attempts beside a slow one
	HedgesWon   uint64 // of them, gave the answer
	Aliased     uint64 // requests for an alias
	Shadows     uint64 // copies sent to another model
	Unshadowed  uint64 // copies that were left out, because there was no room or they can't be made
	Queued      uint64
	HandedOver  uint64 // to the scheduler at which requests for the model wait
	Provided    uint64 // requests that went to an outside provider
	Loads       uint64 // adapters that agents loaded because requests asked for them
	LoadsFailed uint64 // the same, in vain
	Wakes       uint64 // models without an agent for which requests were held
	Rejected    map[bus.Reason]uint64

	PolicyVersion  uint64 // of the policies in force, 0: none were applied
	PolicyRejected uint64 // sets of policies that were not valid; of files, only contradictions
}

// New makes a scheduler on a link that the caller dialled and closes. It takes
// requests only within [Scheduler.Run].
func New(cfg Config, link *bus.Link) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Scheduler{cfg: cfg, id: bus.NewID(), link: link, log: cfg.Log, fleet: newFleet(), tickets: make(map[string]*ticket)}
	s.waiting.MaxDepth, s.up = cfg.QueueDepth, true
	s.peers, s.drains, s.woken = make(map[string]peer), make(map[string]*drain), make(map[string]time.Time)
	s.loads.byID = make(map[string]*adapterLoad)
	s.policies, s.seed = policy.Default(), xxhash.Sum64String(s.id)|1
	s.index = prefix.New(cfg.PrefixEntries, blockBytes)
	s.fleet.left, s.decisions.size = s.index.Purge, cfg.Decisions
	s.counters.Rejected, s.meters = make(map[bus.Reason]uint64), newMeters()
	var err error
	s.holder, err = bus.NewHolder(link, s.id, bus.HolderHandlers{
		Notes: s.notes, Failed: s.failed, Cancel: s.cancelled, Ping: s.pinged, Nobody: s.nobody, Gone: s.gone,
		NoDispatch: s.noDispatch, Beat: s.beat, Placed: s.placed,
		Peer: s.heard, Take: s.take, Handed: s.handed,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ID names the scheduler on the bus; it is new for each.
func (s *Scheduler) ID() string { return s.id }

// How long a new scheduler listens for agents before it takes requests, and how
// often it looks at the clock.
const (
	learnFor = 150 * time.Millisecond
	tick     = 100 * time.Millisecond
)

// Run takes requests until ctx ends; then it hands what waits over to the other
// schedulers and returns. Requests that an agent has are not touched.
func (s *Scheduler) Run(ctx context.Context) error {
	defer s.holder.Close()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	var bg sync.WaitGroup
	defer bg.Wait()
	defer s.loads.bg.Wait()
	defer stop()
	s.mu.Lock()
	s.loads.ctx = run
	s.mu.Unlock()
	policies := make(chan struct{})
	if s.cfg.PolicyFiles {
		close(policies)
	} else {
		bg.Go(func() { s.watchPolicies(run, func() { close(policies) }) })
	}
	patience := time.After(policyPatience)
	s.link.Poll()
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(learnFor):
	}
	select {
	case <-ctx.Done():
		return nil
	case <-policies:
	case <-patience:
	}
	poll, err := s.link.Subscribe(s.link.Control, bus.PollSubject, "", func(*bus.Msg) { s.sayAlive() })
	if err != nil {
		return err
	}
	defer func() { _ = poll.Unsubscribe() }()
	svc, err := s.link.Announce("tokenbus-scheduler", s.cfg.Version, "Tokenbus scheduler", map[string]string{"id": s.id},
		bus.Command{Name: "explain", Subject: bus.ExplainSubject, Run: s.explainCommand})
	if err != nil {
		return err
	}
	defer svc.Stop()
	leave, err := s.holder.Open(s.request)
	if err != nil {
		return err
	}
	s.setOpen(true)
	s.sayAlive()
	s.log.Info("scheduler takes requests", "scheduler", s.id, "agents", s.Agents())
	bg.Go(func() { s.clock(run) })
	bg.Go(func() { s.learnKnown(run) })
	<-ctx.Done()
	s.setOpen(false)
	s.link.SayPeer(bus.PeerBeat{ID: s.id, Gone: true})
	leave()
	s.handBack(run)
	stop()
	bg.Wait()
	return nil
}

func (s *Scheduler) setOpen(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
}

// Take takes a request from a caller in the same process, as if it had come over
// the bus. It reports false when the scheduler takes none now.
func (s *Scheduler) Take(m *bus.Msg) bool {
	s.mu.Lock()
	open := s.open
	s.mu.Unlock()
	if open {
		s.request(m)
	}
	return open
}

// clock does what time asks for.
func (s *Scheduler) clock(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	news := time.NewTicker(gossipEvery)
	defer news.Stop()
	beaten := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-news.C:
			s.spread()
			s.announce()
		case now := <-t.C:
			if now.Sub(beaten) >= bus.BeatEvery {
				beaten = now
				s.sayAlive()
			}
			s.tick(now)
		}
	}
}

// learnKnown reads which models were ever served, so that a model without an
// agent is told from one that never was.
func (s *Scheduler) learnKnown(ctx context.Context) {
	for ctx.Err() == nil {
		docs, err := bus.Documents[bus.Counters](ctx, s.link, bus.BucketCounters)
		if err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, d := range docs {
				for _, m := range d.Models {
					s.fleet.remember(m)
				}
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}

// handBack gives the waiting requests to the other schedulers, and waits until the
// dispatches under way were answered.
func (s *Scheduler) handBack(ctx context.Context) {
	s.mu.Lock()
	s.leaving = true
	now := time.Now()
	for _, t := range s.tickets {
		if t.phase == waitingPhase || t.phase == handing {
			s.republish(t, now)
		}
	}
	s.mu.Unlock()
	until := time.After(2 * s.cfg.AcceptTimeout)
	for {
		s.mu.Lock()
		busy := 0
		for _, t := range s.tickets {
			if t.phase == dispatched || !t.framed {
				busy++
			}
		}
		s.mu.Unlock()
		if busy == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-until:
			return
		case <-time.After(tick):
		}
	}
}

// Agents is the number of agents that the scheduler knows.
func (s *Scheduler) Agents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fleet.agents)
}

// Waiting is the number of requests in the queues.
func (s *Scheduler) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting.Len()
}

// Held is the number of requests that the scheduler still answers for, and the
// bytes of their bodies.
func (s *Scheduler) Held() (requests, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tickets), s.bytes
}

// Counters gives a copy of the counters.
func (s *Scheduler) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters
	c.Rejected = make(map[bus.Reason]uint64, len(s.counters.Rejected))
	for k, v := range s.counters.Rejected {
		c.Rejected[k] = v
	}
	return c
}
