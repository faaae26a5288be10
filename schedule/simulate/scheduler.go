package simulate

import (
	"time"

	"github.com/tokenbus/tokenbus/bus/peek"
	"github.com/tokenbus/tokenbus/schedule/policy"
	"github.com/tokenbus/tokenbus/schedule/prefix"
	"github.com/tokenbus/tokenbus/schedule/queue"
)

// request is one request of a run.
type request struct {
	id           int
	conversation *conversation
	index        int // of the conversation
	number       int // of the turn
	turn         *turn
	tenant       string
	tokens       int64 // prompt and expected answer, estimated
	chars        int
	measured     bool

	prefix       peek.Prefix // as the scheduler knows the prompt
	known        int         // blocks of it that the index promised
	blocks       []uint64    // as the engine knows prompt and answer
	promptBlocks int
	cached       int // characters of the prompt that were

	came, first, taken time.Duration
	lastStep           float64
	view               *view
	item               *queue.FairItem[*request]
	ended              bool
}

// scheduler is the decision core of one scheduler.
type scheduler struct {
	clock   *clock
	step    policy.Step
	looks   bool // the policy looks at prefixes
	pool    policy.Pool
	views   []*view
	list    []*policy.Serving
	turn    uint64
	index   *prefix.Index
	waiting queue.Fair[*request]
	seed    uint64
	refuse  func(*request)

	owner   *scheduler // at which requests wait
	others  []*scheduler
	crowded bool // the owner has said that requests wait
	said    bool // of the owner: what it last said
	batch   []placement

	decisions int
	spent     time.Duration
	watch     func() time.Duration // nil: the time of decisions is not measured
}

// placement is one prompt at one agent.
type placement struct {
	slot   int
	prompt peek.Prefix
}

// What the scheduler's own settings are by default.
const (
	model         = "m"
	queueDepth    = 4096
	queueTimeout  = time.Minute
	prefixEntries = 1 << 20
	wakeLooks     = 64
)

// request takes a request from the bus, or from another scheduler.
func (s *scheduler) request(r *request) {
	if s.waiting.Depth(model) > 0 || s.crowded {
		s.wait(r)
		return
	}
	s.place(r)
}

func (s *scheduler) place(r *request) {
	if v := s.choose(r); v != nil {
		s.dispatch(r, v)
		return
	}
	s.wait(r)
}

// choose decides. As no agent of a simulation fails, there is nothing but room that
// may be missing.
func (s *scheduler) choose(r *request) *view {
	var began time.Duration
	if s.watch != nil {
		began = s.watch()
	}
	s.see(r)
	req := policy.Request{Session: r.conversation.session, Random: s.random()}
	i, verdict := s.pool.Decide(&s.step, &req, s.list)
	s.decisions++
	if s.watch != nil {
		s.spent += s.watch() - began
	}
	if verdict != policy.Chosen {
		return nil
	}
	s.turn++
	s.list[i].Turn = s.turn
	return s.views[i]
}

// see brings what a decision looks at up to date.
func (s *scheduler) see(r *request) {
	total := 0
	if s.looks && len(r.prefix) > 0 {
		s.index.Match(r.prefix)
		total = r.prefix.Bytes()
	}
	for i, v := range s.views {
		v.look(s.clock.now)
		matched := 0.0
		if total > 0 {
			if n := s.index.Depth(v.slot); n > 0 {
				matched = float64(r.prefix[:n].Bytes()) / float64(total)
			}
		}
		s.list[i].Matched = matched
	}
}

func (s *scheduler) random() uint64 {
	x := s.seed
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	s.seed = x
	return x
}

// wait puts a request into the queue of the owner. One that has waited before gets
// its place back.
func (s *scheduler) wait(r *request) {
	if s.owner != s {
		s.clock.after(wire, func() { s.owner.request(r) })
		return
	}
	if r.item != nil {
		s.waiting.Return(r.item)
		return
	}
	item, _, err := s.waiting.Push(queue.Key{Model: model, Tenant: r.tenant, Tokens: max(r.tokens, 1), Bytes: r.chars}, r)
	if err != nil {
		s.refuse(r)
		return
	}
	r.item = item
	s.clock.after(queueTimeout, func() {
		if item.Waiting() {
			s.waiting.Remove(item)
			s.announce()
			s.refuse(r)
		}
	})
	s.announce()
}

// dispatch sends a request to an agent, which takes or refuses it.
func (s *scheduler) dispatch(r *request, v *view) {
	switch {
	case r.item == nil:
		s.waiting.Charge(model, r.tenant, 0, r.tokens)
	case r.item.Waiting():
		s.waiting.Take(r.item)
		s.announce()
	}
	v.pending++
	v.coming += r.tokens
	v.tried = s.clock.now
	r.view = v
	s.expect(r, v)
	s.clock.after(wire, func() {
		taken := v.engine.take(r)
		active := v.engine.active
		s.clock.after(wire, func() { s.note(r, v, taken, active) })
	})
}

// expect notes in the index that an agent gets a prompt.
func (s *scheduler) expect(r *request, v *view) {
	if !s.looks || len(r.prefix) == 0 {
		return
	}
	s.index.SetRoom(v.slot, int64(v.engine.model.CacheChars))
	r.known = s.index.Insert(v.slot, r.prefix)
	if len(s.others) == 0 {
		return
	}
	if s.batch = append(s.batch, placement{v.slot, r.prefix}); len(s.batch) == 1 {
		s.clock.after(gossip, s.spread)
	}
}

// spread tells the other schedulers which prompts went where.
func (s *scheduler) spread() {
	batch := s.batch
	s.batch = nil
	s.clock.after(wire, func() {
		for _, o := range s.others {
			for _, p := range batch {
				o.index.Insert(p.slot, p.prompt)
			}
		}
	})
}

// note takes an agent's word on a request.
func (s *scheduler) note(r *request, v *view, taken bool, active int) {
	v.pending--
	v.coming -= r.tokens
	v.active = active
	if !taken {
		if s.looks && len(r.prefix) > r.known {
			s.index.Drop(v.slot, r.prefix[r.known:])
		}
		r.known = len(r.prefix)
		s.place(r)
	}
	s.wake(v)
}

// beat takes an agent's beat.
func (s *scheduler) beat(slot int) {
	v := s.views[slot]
	v.active, v.tokens = v.engine.active, v.engine.tokens
	s.wake(v)
}

// wake gives the free slots of an agent to whoever waits.
func (s *scheduler) wake(v *view) {
	if s.waiting.Len() == 0 || !v.room() {
		return
	}
	looked := 0
	for it := range s.waiting.Each(model) {
		if policy.Allows(&s.step, &policy.Request{}, v.look(s.clock.now)) {
			s.dispatch(it.Value, v)
		}
		if looked++; looked == wakeLooks || !v.room() {
			return
		}
	}
}

// announce tells the other schedulers whether requests wait, when that has changed.
func (s *scheduler) announce() {
	waits := s.waiting.Len() > 0
	if len(s.others) == 0 || waits == s.said {
		return
	}
	s.said = waits
	s.clock.after(wire, func() {
		for _, o := range s.others {
			o.crowded = waits
		}
	})
}
