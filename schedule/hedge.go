package schedule

import (
	"maps"
	"math"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// hedge is a second attempt at a stream, beside one whose first byte takes long. The
// caller takes the one that answers first; the other yields. It costs no try, and when
// one of the two fails, the other goes on.
type hedge struct {
	agent    *agentView
	attempt  string
	epoch    string
	n        int // of the attempt
	sent     time.Time
	accepted bool
}

// Hedges are for requests that are slow by bad luck, not for a fleet that is slow
// because it is busy: they come only while the healthy agents of the model are less
// than half full, and are at most a share of the requests.
const (
	hedgeShare = 0.02
	hedgeMost  = 10.0 // saved up
	hedgeBelow = 0.5  // active / capacity
)

// tickHedge starts a hedge if the policy wants one and it is time. s.mu is held.
func (s *Scheduler) tickHedge(t *ticket, now time.Time) {
	st := &t.policy.Steps[min(t.step, len(t.policy.Steps)-1)]
	p := s.fleet.models[t.model]
	if !st.Hedge || !t.stream || !t.framed || t.provided || t.hedge != nil || p == nil || s.hedges < 1 {
		return
	}
	after, ok := p.first.p95()
	if !ok || now.Sub(t.sent) < after || p.load(now) >= hedgeBelow {
		return
	}
	req := policy.Request{API: apiBit(t.api), Session: t.session, Failed: maps.Clone(t.excluded), Random: s.random()}
	if req.Failed == nil {
		req.Failed = make(map[string]bool, 1)
	}
	req.Failed[t.agent.record.ID] = true
	s.see(t, p, now)
	i, verdict := s.pool.Decide(st, &req, p.list)
	if i < 0 {
		return
	}
	s.explainStep(t, st.Name, st.Strategy.String()+"/hedge", verdict, i, p.list, now)
	p.turn++
	p.list[i].Turn = p.turn
	s.hedges--
	s.counters.Hedges++
	s.counters.Dispatches++
	t.attempts++
	v := p.views[i]
	h := &hedge{agent: v, attempt: s.holder.AttemptID(t.id, t.attempts, true), epoch: v.record.Epoch, n: t.attempts, sent: now}
	t.hedge = h
	v.pending[h.attempt] = t.tokens
	v.breaker.sent(h.attempt)
	v.tried = now
	delete(t.m.Header, bus.HeaderPredicted) // the index does not hear of it
	label := t.policy.Label(min(t.step, len(t.policy.Steps)-1)) + "/hedge"
	s.meters.dispatched(t, label, now)
	s.address(t, t.tries+1, label, now)
	if err := s.holder.Dispatch(t.m, v.record.ID, h.epoch, t.id, h.attempt, h.n); err != nil {
		s.log.Debug("hedge not sent", "attempt", h.attempt, "err", err)
	}
}

// endHedge forgets the hedge of a ticket.
func (t *ticket) endHedge() {
	if h := t.hedge; h != nil {
		delete(h.agent.pending, h.attempt)
		h.agent.breaker.neutral(h.attempt)
		t.hedge = nil
	}
}

// promote lets the hedge of a ticket take the place of its attempt, which is over; it
// reports whether there was one.
func (t *ticket) promote(now time.Time) bool {
	h := t.hedge
	if h == nil {
		return false
	}
	t.hedge = nil
	if t.agent != nil {
		delete(t.agent.pending, t.attempt)
		t.agent.breaker.neutral(t.attempt)
	}
	t.agent, t.attempt, t.epoch, t.n, t.sent, t.said = h.agent, h.attempt, h.epoch, h.n, h.sent, now
	t.phase, t.held, t.hedged = dispatched, len(t.prefix), true
	if h.accepted {
		t.phase = accepted
	}
	return true
}

// noteHedge takes what an agent says of the hedge of a ticket.
func (s *Scheduler) noteHedge(t *ticket, note bus.Note, now time.Time) {
	h := t.hedge
	switch {
	case note == bus.NoteAccepted:
		h.accepted = true
	case note == bus.NoteFirst, note == bus.NoteGood:
		t.record.outcome(t.agent.record.ID, "slower than its hedge")
		s.holder.Yield(t.agent.record.ID, t.epoch, t.attempt)
		s.served(t, true, now)
	default:
		t.record.outcome(h.agent.record.ID, string(note))
		t.endHedge()
	}
}

// failHedge takes the failure of a hedge: the attempt beside it goes on.
func (s *Scheduler) failHedge(t *ticket, f bus.Failure, now time.Time) {
	h := t.hedge
	if f.Class == bus.ClassEngineError || f.Class == bus.ClassLost {
		h.agent.breaker.failed(h.attempt, now)
	}
	t.record.outcome(h.agent.record.ID, string(f.Class))
	t.exclude(h.agent.record.ID)
	t.endHedge()
}

// watchHedge gives up on the agent of a hedge that does not answer or is gone.
func (s *Scheduler) watchHedge(t *ticket, now time.Time) {
	h := t.hedge
	if h == nil {
		return
	}
	live := s.fleet.agents[h.agent.record.ID] == h.agent && h.agent.record.Epoch == h.epoch
	late := !h.accepted && now.Sub(h.sent) >= s.cfg.AcceptTimeout
	if live && !late {
		return
	}
	s.holder.CancelAttempt(h.agent.record.ID, h.epoch, h.attempt)
	if live {
		s.counters.Timeouts++
		h.agent.suspect = true
	}
	t.record.outcome(h.agent.record.ID, "timeout")
	t.exclude(h.agent.record.ID)
	t.endHedge()
}

// load is active / capacity over the healthy agents of a pool, 1 if there are none.
func (p *pool) load(now time.Time) float64 {
	active, capacity := 0, 0
	for _, v := range p.views {
		if a := v.look(now); a.Healthy {
			active, capacity = active+a.Active, capacity+a.Capacity
		}
	}
	if capacity == 0 {
		return 1
	}
	return float64(active) / float64(capacity)
}

// delays is the distribution of the last times to a first byte, in buckets of which
// four double the time.
type delays struct {
	counts [4 * 20]uint32
	total  uint32
}

// Bounds of the samples that count: with fewer there is no quantile; at the most, all
// counts are halved, so that old ones fade.
const (
	leastDelays = 50
	mostDelays  = 4096
)

func (d *delays) add(t time.Duration) {
	ms := float64(t) / float64(time.Millisecond)
	i := 0
	if ms > 1 {
		i = min(int(4*math.Log2(ms))+1, len(d.counts)-1)
	}
	d.counts[i]++
	if d.total++; d.total < mostDelays {
		return
	}
	d.total = 0
	for i, n := range d.counts {
		d.counts[i] = n / 2
		d.total += n / 2
	}
}

// p95 is the upper end of the bucket that holds the 95th percentile; ok is false with
// too few samples.
func (d *delays) p95() (t time.Duration, ok bool) {
	if d.total < leastDelays {
		return 0, false
	}
	left := d.total - d.total/20
	for i, n := range d.counts {
		if n >= left {
			return time.Duration(math.Exp2(float64(i)/4) * float64(time.Millisecond)), true
		}
		left -= n
	}
	return 0, false
}
