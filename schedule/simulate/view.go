package simulate

import (
	"math/rand/v2"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// view is what a scheduler believes of one agent.
type view struct {
	engine  *engine
	slot    int
	active  int   // as the agent last said
	tokens  int64 // likewise
	pending int   // requests on their way to it
	coming  int64 // their tokens
	tried   time.Duration
	agent   policy.Agent
}

// historyRest is how long an agent gets nothing before a gate on history lets one
// request pass.
const historyRest = 5 * time.Second

func (v *view) load() int { return v.active + v.pending }

func (v *view) room() bool { return v.load() < v.agent.Capacity }

// look brings the agent that a decision sees up to date.
func (v *view) look(now time.Duration) *policy.Agent {
	a := &v.agent
	a.Active = v.load()
	a.Tokens = v.tokens + v.coming
	a.Probe = now-v.tried >= historyRest
	return a
}

// The delays of the bus.
const (
	wire     = 500 * time.Microsecond // one message
	coalesce = bus.BeatCoalesce       // from a change of an agent's state to its beat
	every    = bus.BeatEvery          // between beats with signals
	gossip   = 20 * time.Millisecond  // between messages about placements
)

// station is an agent as it speaks to the schedulers.
type station struct {
	engine     *engine
	slot       int
	schedulers []*scheduler
	beating    bool // a short beat is on its way
	over       func() bool
}

// changed makes a short beat go out a little later. What happens until then goes with
// it.
func (s *station) changed() {
	if s.beating {
		return
	}
	s.beating = true
	s.engine.clock.after(coalesce, func() {
		s.beating = false
		for _, o := range s.schedulers {
			o.beat(s.slot)
		}
	})
}

// beats sends full beats until the run is over.
func (s *station) beats() {
	signals := s.engine.signals()
	for _, o := range s.schedulers {
		o.views[s.slot].agent.Signals = signals
		o.beat(s.slot)
	}
	if !s.over() {
		s.engine.clock.after(every, s.beats)
	}
}

// speeds are those of the engines: spread evenly, in an order that the seed gives.
func (c *Config) speeds() []float64 {
	list := make([]float64, c.Agents)
	for i, k := range rand.New(rand.NewPCG(c.Seed, fleetStream)).Perm(c.Agents) {
		list[i] = 1
		if c.Agents > 1 {
			list[i] += c.Model.Spread * (2*float64(k)/float64(c.Agents-1) - 1)
		}
	}
	return list
}
