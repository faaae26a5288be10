package simulate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tokenbus/tokenbus/bus/peek"
	"github.com/tokenbus/tokenbus/schedule/policy"
	"github.com/tokenbus/tokenbus/schedule/prefix"
	"github.com/tokenbus/tokenbus/schedule/queue"
)

// Config is one run: one strategy under one workload at one load.
type Config struct {
	Agents, Schedulers int
	Seed               uint64
	Strategy           string
	Options            policy.Options
	Workload           string
	Load               float64 // of the capacity of the fleet
	Requests           int
	TTFTLimit          time.Duration
	ITLLimit           time.Duration // of the mean time between two tokens of an answer
	Model              Model
	// Watch is the time that passes really, to measure decisions; nil does not.
	Watch func() time.Duration
}

// Bounds of a run.
const (
	maxAgents     = 100_000
	maxSchedulers = 1000
	maxRequests   = 10_000_000
)

// Validate reports everything that is wrong, each with the flag that sets it.
func (c *Config) Validate() error {
	var errs []error
	check := func(ok bool, flag string, v any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s: %v is not %s", flag, v, want))
		}
	}
	check(c.Agents >= 1 && c.Agents <= maxAgents, "agents", c.Agents, "between 1 and 100000")
	check(c.Schedulers >= 1 && c.Schedulers <= maxSchedulers, "schedulers", c.Schedulers, "between 1 and 1000")
	check(slices.Contains(policy.Strategies(), c.Strategy), "strategies", c.Strategy, fmt.Sprint("one of ", policy.Strategies()))
	check(slices.Contains(Workloads(), c.Workload), "workloads", c.Workload, fmt.Sprint("one of ", Workloads()))
	check(c.Load > 0 && c.Load <= 10, "loads", c.Load, "above 0 and at most 10")
	check(c.Requests >= 1 && c.Requests <= maxRequests, "requests", c.Requests, "between 1 and 10000000")
	check(c.TTFTLimit > 0, "ttft-limit", c.TTFTLimit, "positive")
	check(c.ITLLimit > 0, "itl-limit", c.ITLLimit, "positive")
	return errors.Join(append(errs, c.Model.validate())...)
}

// The streams of random numbers: what one draws does not move another.
const (
	trafficStream = iota + 1
	burstStream
	frontStream
	fleetStream
)

// run is a simulation under way.
type run struct {
	cfg        Config
	clock      clock
	traffic    *traffic
	engines    []*engine
	schedulers []*scheduler
	random     *rand.Rand // which scheduler gets a request
	names      []string   // of the tenants
	expected   int64      // tokens of an answer, as callers estimate them
	begun      int
	ended      int
	from, to   int // conversations between which are measured
	tally      tally
}

// simulate runs the traffic to its end.
func simulate(cfg Config, t *traffic, rate float64) *run {
	s := &run{cfg: cfg, traffic: t, random: rand.New(rand.NewPCG(cfg.Seed, frontStream)), expected: int64(t.answer)}
	s.from, s.to = len(t.conversations)/4, len(t.conversations)*9/10
	for i := range t.workload.Tenants {
		s.names = append(s.names, "tenant-"+strconv.Itoa(i))
	}
	s.tally.tenants = make([]tenantTally, t.workload.Tenants)
	s.build()
	for i, at := range t.begins(cfg.Seed, rate) {
		s.clock.after(at, func() { s.come(i, 0) })
	}
	for s.ended < t.requests && s.clock.next() {
	}
	for s.clock.next() { // notes and beats that are on their way
	}
	return s
}

// build makes the fleet and its schedulers.
func (s *run) build() {
	m := &s.cfg.Model
	for _, speed := range s.cfg.speeds() {
		s.engines = append(s.engines, &engine{clock: &s.clock, model: m, speed: speed, cache: newCache(m.CacheChars / engineBlock), ended: s.end})
	}
	for i := range s.cfg.Schedulers {
		s.schedulers = append(s.schedulers, s.scheduler(i))
	}
	for _, o := range s.schedulers {
		o.owner = s.schedulers[0]
		for _, p := range s.schedulers {
			if p != o {
				o.others = append(o.others, p)
			}
		}
	}
	for i, e := range s.engines {
		st := &station{engine: e, slot: i, schedulers: s.schedulers, over: func() bool { return s.ended == s.traffic.requests }}
		e.changed = st.changed
		s.clock.after(every*time.Duration(i)/time.Duration(len(s.engines)), st.beats)
	}
}

func (s *run) scheduler(i int) *scheduler {
	o := &scheduler{
		clock: &s.clock, index: prefix.New(prefixEntries, peek.BlockBytes), waiting: queue.Fair[*request]{MaxDepth: queueDepth},
		seed: mix(s.cfg.Seed+uint64(i)) | 1, refuse: s.refuse, watch: s.cfg.Watch, looks: s.cfg.Strategy == "prefix-aware",
		step: policy.Step{Strategy: policy.StrategySpec{Terms: []policy.Term{{Name: s.cfg.Strategy, Weight: 1}}, Options: s.cfg.Options}},
	}
	for k, e := range s.engines {
		id := fmt.Sprintf("agent-%06d", k)
		v := &view{engine: e, slot: k, tried: -historyRest}
		v.agent = policy.Agent{ID: id, Hash: xxhash.Sum64String(id), Healthy: true, Capacity: s.cfg.Model.Slots, Signals: policy.Unknown(), Trust: 1}
		o.views = append(o.views, v)
		o.list = append(o.list, &policy.Serving{Agent: &v.agent})
	}
	return o
}

// come lets a turn of a conversation come.
func (s *run) come(conversation, turn int) {
	c := &s.traffic.conversations[conversation]
	t := &c.turns[turn]
	r := &request{
		id: s.begun, conversation: c, turn: t, number: turn, index: conversation, tenant: s.names[c.tenant], chars: t.chars,
		tokens: int64(t.chars/charsPerToken) + s.expected, came: s.clock.now,
		measured: conversation >= s.from && conversation < s.to,
	}
	s.begun++
	r.blocks = blocks(c.text[:t.prompt+1], engineSize)
	r.promptBlocks = t.chars / engineBlock
	o := s.schedulers[s.random.IntN(len(s.schedulers))]
	if o.looks {
		r.prefix = indexBlocks(c.text[:t.prompt])
	}
	s.clock.after(wire, func() { o.request(r) })
}

// end takes the end of an answer.
func (s *run) end(r *request) {
	s.tally.count(r, s.clock.now, &s.cfg)
	s.next(r)
}

// refuse ends a request that nobody had room for.
func (s *run) refuse(r *request) {
	s.tally.refuse(r, s.clock.now)
	s.next(r)
}

// next ends a request, and lets the next turn of its conversation come after its time
// to think, whatever came of this one: all strategies get the same requests.
func (s *run) next(r *request) {
	if r.ended {
		panic("a request ended twice")
	}
	r.ended = true
	s.ended++
	if r.number+1 < len(r.conversation.turns) {
		s.clock.after(r.conversation.turns[r.number+1].think, func() { s.come(r.index, r.number+1) })
	}
}
