package schedule

import (
	"strconv"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/peek"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// choice is what a walk along the steps of a policy came to.
type choice struct {
	view    *agentView
	step    int // that chose it
	verdict policy.Verdict
}

// choose walks along the steps of a ticket's policy, from the one that it has come
// to, until one gives an agent. A step that lacks only room is passed over while a
// later one has room, unless it has max_wait and the request has not waited that
// long: rather another pool now than this one later. s.mu is held.
func (s *Scheduler) choose(t *ticket, now time.Time) choice {
	p := s.fleet.models[t.model]
	if p == nil {
		return choice{verdict: policy.NoModel}
	}
	s.see(t, p, now)
	req := policy.Request{API: apiBit(t.api), Session: t.session, Failed: t.excluded, Random: s.random()}
	out := choice{verdict: policy.NoHealthy}
	for k := t.step; k < len(t.policy.Steps); k++ {
		step := &t.policy.Steps[k]
		i, verdict := s.pool.Decide(step, &req, p.list)
		s.explain(t, k, verdict, i, p.list, now)
		switch verdict {
		case policy.Chosen:
			p.turn++
			p.list[i].Turn = p.turn
			return choice{view: p.views[i], step: k, verdict: verdict}
		case policy.NoCapacity:
			out.verdict = verdict
			if step.MaxWait > 0 && t.waitedFor(now) < step.MaxWait {
				return out
			}
		default:
			if out.verdict != policy.NoCapacity {
				out.verdict = verdict
			}
		}
	}
	return out
}

// see brings what a decision looks at up to date: the agents, and how much of the
// prompt each has in its cache.
func (s *Scheduler) see(t *ticket, p *pool, now time.Time) {
	total := 0
	if len(t.prefix) > 0 {
		s.index.Match(t.prefix)
		total = t.prefix.Bytes()
	}
	for i, v := range p.views {
		v.look(now)
		matched := 0.0
		if total > 0 {
			if n := s.index.Depth(v.slot); n > 0 {
				matched = float64(t.prefix[:n].Bytes()) / float64(total)
			}
		}
		p.list[i].Matched = matched
	}
}

// could reports whether a step that the ticket may take lets it go to this agent,
// which has room.
func (s *Scheduler) could(t *ticket, v *agentView, now time.Time) (step int, ok bool) {
	req := policy.Request{API: apiBit(t.api), Session: t.session, Failed: t.excluded}
	a := v.look(now)
	for k := t.step; k < len(t.policy.Steps); k++ {
		st := &t.policy.Steps[k]
		if policy.Allows(st, &req, a) {
			if t.session != 0 && st.Strategy.Hard() {
				c := s.choose(t, now) // only its home will do
				return c.step, c.view == v
			}
			return k, true
		}
		if st.MaxWait > 0 && t.waitedFor(now) < st.MaxWait {
			return 0, false
		}
	}
	return 0, false
}

// random is the next number of a xorshift generator (Marsaglia, 2003). It decides
// between agents, nothing that must not be guessed.
func (s *Scheduler) random() uint64 {
	x := s.seed
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	s.seed = x
	return x
}

// bytesPerToken turns the room of an engine's cache into bytes of prompts. It is what
// English prose and JSON take; Trust corrects what it gets wrong.
const bytesPerToken = 4

// expect notes in the index that an agent gets a prompt, and tells the agent how much
// of it should be in its engine's cache.
func (s *Scheduler) expect(t *ticket, v *agentView) {
	if len(t.prefix) == 0 {
		return
	}
	s.index.SetRoom(v.slot, v.record.CacheTokens*bytesPerToken)
	t.held = s.index.Insert(v.slot, t.prefix)
	s.meters.expected(t.prefix.Bytes(), t.prefix[:t.held].Bytes())
	permille := 1000 * t.prefix[:t.held].Bytes() / t.prefix.Bytes()
	t.m.Header[bus.HeaderPredicted] = []string{strconv.Itoa(permille)}
	s.gossip.add(v, t.prefix)
}

// unexpect takes that back: the prompt never got to the engine.
func (s *Scheduler) unexpect(t *ticket, v *agentView) {
	if len(t.prefix) > t.held {
		s.index.Drop(v.slot, t.prefix[t.held:])
	}
	t.held = len(t.prefix)
}

// blockBytes is the size of a block for the index.
func blockBytes(i int) int { return peek.BlockBytes(i) }
