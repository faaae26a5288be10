package schedule

import (
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// find gives the ticket of an attempt, if the attempt is its present one or the hedge
// of that; second tells which.
func (s *Scheduler) find(attempt string) (t *ticket, second bool) {
	rest, ok := strings.CutPrefix(attempt, s.id+"-")
	if !ok {
		return nil, false
	}
	id, _, _ := strings.Cut(rest, "-")
	t = s.tickets[id]
	switch {
	case t == nil:
	case t.attempt == attempt:
		return t, false
	case t.hedge != nil && t.hedge.attempt == attempt:
		return t, true
	}
	return nil, false
}

// notes takes what an agent says of attempts.
func (s *Scheduler) notes(state bus.State, notes []bus.AttemptNote) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.fleet.state(state, now)
	for _, n := range notes {
		if v != nil {
			delete(v.pending, n.Attempt)
			v.breaker.note(n)
		}
		switch t, second := s.find(n.Attempt); {
		case t == nil:
		case second:
			s.noteHedge(t, n.Note, now)
		default:
			s.note(t, n.Note, now)
		}
	}
	if v != nil {
		s.wake(v, now)
	}
}

func (s *Scheduler) note(t *ticket, note bus.Note, now time.Time) {
	switch {
	case note == bus.NoteAccepted:
		t.phase, t.said = accepted, now
	case note == bus.NoteEnd && t.hedge != nil:
		// Its engine had no answer, or only an error. If the caller has taken that, the
		// hedge hears so.
		t.record.outcome(t.agent.record.ID, string(note))
		t.promote(now)
	case note == bus.NoteFirst, note == bus.NoteEnd, note == bus.NoteGood:
		if h := t.hedge; h != nil {
			t.record.outcome(h.agent.record.ID, "slower than what it hedged")
			s.holder.Yield(h.agent.record.ID, h.epoch, h.attempt)
		}
		s.served(t, t.hedged && note != bus.NoteEnd, now)
	case note.Refusal():
		s.refused(t, note, now)
	}
}

// served ends a ticket whose answer has begun; hedged tells that it is that of a hedge.
func (s *Scheduler) served(t *ticket, hedged bool, now time.Time) {
	if hedged {
		s.counters.HedgesWon++
	}
	if p := s.fleet.models[t.model]; p != nil && t.stream {
		p.first.add(now.Sub(t.sent))
	}
	t.record.end("served")
	s.drop(t)
}

// refused tries the next agent: a refusal never ran and costs no try.
func (s *Scheduler) refused(t *ticket, note bus.Note, now time.Time) {
	s.counters.Refusals++
	s.meters.refusals[note]++
	delete(t.agent.pending, t.attempt)
	t.agent.breaker.neutral(t.attempt)
	t.record.outcome(t.agent.record.ID, string(note))
	s.unexpect(t, t.agent)
	switch note {
	case bus.NoteUnknownModel:
		s.fleet.unserve(t.agent, t.model)
	case bus.NoteNotReady, bus.NoteDraining:
		t.agent.suspect = true // until it beats
	}
	if t.promote(now) {
		return
	}
	t.agent = nil
	s.place(t, now, true)
}

// noDispatch takes the server's word that a dispatch reached nobody.
func (s *Scheduler) noDispatch(ticket string, try int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.tickets[ticket]; {
	case t == nil:
	case t.hedge != nil && t.hedge.n == try:
		s.noteHedge(t, bus.NoteNotReady, now)
	case t.phase == dispatched && t.n == try:
		s.refused(t, bus.NoteNotReady, now)
	}
}

// failed takes an agent's report of a try that failed before its first byte.
func (s *Scheduler) failed(attempt string, f bus.Failure) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t, second := s.find(attempt); {
	case t == nil:
	case second:
		s.failHedge(t, f, now)
	default:
		s.fail(t, f, now)
	}
}

func (s *Scheduler) fail(t *ticket, f bus.Failure, now time.Time) {
	v := t.agent
	delete(v.pending, t.attempt)
	if f.Class == bus.ClassEngineError || f.Class == bus.ClassLost {
		v.breaker.failed(t.attempt, now)
	} else {
		v.breaker.neutral(t.attempt)
	}
	t.record.outcome(v.record.ID, string(f.Class))
	s.unexpect(t, v)
	t.exclude(v.record.ID)
	t.agent, t.attempt, t.failure = nil, "", &f
	if f.Class != bus.ClassRefused {
		t.tries++
		t.stepTries++
	}
	if t.promote(now) {
		return
	}
	if t.shadow {
		s.drop(t)
		return
	}
	if f.Class != bus.ClassRefused && !s.budget.take(now) {
		s.counters.Unbudgeted++
		s.relay(t)
		return
	}
	if t.provided {
		s.relay(t)
		return
	}
	most := t.policy.Steps[t.step].MaxTries
	if most == 0 {
		most = s.cfg.MaxTries
	}
	if t.stepTries >= most {
		t.step, t.stepTries = t.step+1, 0
	}
	if t.step >= len(t.policy.Steps) || t.tries >= maxTries {
		s.exhausted(t, policy.AllFailed, now)
		return
	}
	s.counters.Retries++
	s.meters.retries[f.Class]++
	s.place(t, now, true)
}

// maxTries bounds the tries of one request over all steps.
const maxTries = 100

// beat takes an agent's beat.
func (s *Scheduler) beat(r bus.Record) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, _ := s.fleet.say(r, now); v != nil {
		s.wake(v, now)
	}
}

// wake gives an agent's free slots to whoever waits for one of its models.
func (s *Scheduler) wake(v *agentView, now time.Time) {
	if s.waiting.Len() == 0 {
		return
	}
	for _, m := range v.record.Models {
		if !v.room() || !s.fleet.serves(v, m.ID) {
			continue // it refused the model since its last beat
		}
		looked := 0
		for it := range s.waiting.Each(m.ID) {
			if step, ok := s.could(it.Value, v, now); ok {
				s.send(it.Value, v, step, now)
			}
			if looked++; looked == wakeLooks || !v.room() {
				break
			}
		}
	}
}

// wakeLooks bounds how far behind the first one a request is looked for that may go to
// an agent. Who is further behind is found when the queue has moved, or by the clock.
const wakeLooks = 64

// cancelled takes a caller's word that it gave up.
func (s *Scheduler) cancelled(ticket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tickets[ticket]; t != nil {
		s.giveUp(t)
	}
}

// giveUp drops a ticket and its attempt.
func (s *Scheduler) giveUp(t *ticket) {
	if t.agent != nil {
		s.holder.CancelAttempt(t.agent.record.ID, t.epoch, t.attempt)
	}
	if h := t.hedge; h != nil {
		s.holder.CancelAttempt(h.agent.record.ID, h.epoch, h.attempt)
	}
	s.drop(t)
}

func (s *Scheduler) pinged(ticket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tickets[ticket]; t != nil && t.framed {
		s.holder.Queued(t.reply, t.id)
	}
}

// nobody takes the server's word that nobody listens to a caller's inbox.
func (s *Scheduler) nobody(ticket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tickets[ticket]; t != nil {
		t.interest.Nobody(time.Now())
	}
}

// keepalive is how often a framed caller hears that its request waits, and how
// often the inbox of a bare one is probed.
const keepalive = time.Second

// askEvery is how often an agent is asked whether it still has a request that it
// accepted: the note that it ended may have been lost.
const askEvery = 5 * time.Second

// gone takes an agent's word that it knows nothing of a request any more.
func (s *Scheduler) gone(ticket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tickets[ticket]; t != nil && t.phase == accepted && !t.promote(time.Now()) {
		s.drop(t)
	}
}

// tick does what time asks for.
func (s *Scheduler) tick(now time.Time) {
	up := s.link.Connected()
	s.mu.Lock()
	defer s.mu.Unlock()
	if up && !s.up {
		s.rejoin(now)
	}
	s.up = up
	if !up || now.Before(s.settled) {
		return
	}
	for _, v := range s.fleet.agents {
		if now.Sub(v.at) > bus.GoneAfter {
			s.fleet.remove(v)
		}
	}
	for _, t := range s.tickets {
		switch t.phase {
		case waitingPhase:
			s.tickWaiting(t, now)
		case dispatched:
			s.tickDispatched(t, now)
		case accepted:
			s.tickAccepted(t, now)
		case handing:
			if now.Sub(t.sent) > handTimeout {
				s.keep(t, now)
			}
		}
	}
	s.tickPeers(now)
	s.tickFront(now)
}

// settleFor is how long a scheduler that was cut off leaves its old requests alone:
// their callers may have gone to another, and say so when they hear of this one.
const settleFor = 300 * time.Millisecond

// rejoin tells the callers of all requests that they are still held here.
func (s *Scheduler) rejoin(now time.Time) {
	s.settled = now.Add(settleFor)
	for _, t := range s.tickets {
		if t.framed && t.phase != accepted {
			s.holder.Queued(t.reply, t.id)
		}
	}
}

func (s *Scheduler) tickWaiting(t *ticket, now time.Time) {
	if t.interest.Gone(now) {
		s.drop(t)
		return
	}
	if now.After(t.until) || t.waitedFor(now) > s.cfg.QueueTimeout {
		s.giveOut(t, now, &bus.Error{Reason: bus.ReasonQueueTimeout, Message: "all agents that serve the model stayed full", RetryAfter: s.drainTime(t.model)})
		return
	}
	if now.Sub(t.said) >= keepalive {
		t.said = now
		t.interest.Probed()
		if t.framed {
			s.holder.Queued(t.reply, t.id)
		} else {
			s.holder.Probe(t.reply, t.id)
		}
	}
}

// tickFront looks again at whoever is next for each model: the agent with room may
// have been heard of without a note or a beat, and what was waited for may be gone.
func (s *Scheduler) tickFront(now time.Time) {
	for m := range s.waiting.Models() {
		if owner := s.owner(m); owner != s.id {
			s.moveQueue(m, owner, now)
			continue
		}
		looked := 0
		for it := range s.waiting.Each(m) {
			if looked++; looked > wakeLooks {
				break
			}
			t := it.Value
			c := s.choose(t, now)
			switch {
			case c.view != nil:
				s.send(t, c.view, c.step, now)
			case s.mayWait(t, c.verdict, now):
				if len(t.excluded) == 0 && t.step == 0 {
					looked = wakeLooks // the others wait for the same
				}
			default:
				s.exhausted(t, c.verdict, now)
			}
		}
	}
}

// moveQueue hands the requests for a model over to the scheduler that has become
// their owner.
func (s *Scheduler) moveQueue(model, owner string, now time.Time) {
	var all []*ticket
	for it := range s.waiting.Each(model) {
		if it.Value.hops < maxHops {
			all = append(all, it.Value)
		}
	}
	for _, t := range all {
		t.waited = t.waitedFor(now)
		s.waiting.Remove(t.item)
		t.item = nil
		s.handOver(t, owner, now)
	}
}

// tickDispatched gives up on an agent that does not answer: it may be frozen, or
// cut off.
func (s *Scheduler) tickDispatched(t *ticket, now time.Time) {
	if now.Sub(t.sent) < s.cfg.AcceptTimeout {
		return
	}
	s.counters.Timeouts++
	t.record.outcome(t.agent.record.ID, "timeout")
	t.agent.breaker.neutral(t.attempt)
	s.unexpect(t, t.agent)
	s.holder.CancelAttempt(t.agent.record.ID, t.epoch, t.attempt)
	t.exclude(t.agent.record.ID)
	t.agent.suspect = true
	if t.framed {
		s.holder.Queued(t.reply, t.id)
	}
	delete(t.agent.pending, t.attempt)
	t.agent, t.attempt = nil, ""
	if now.After(t.until) {
		s.refuse(t, bus.Errorf(bus.ReasonDeadline, "no agent accepted the request in its time"))
		return
	}
	s.place(t, now, true)
}

// tickAccepted watches over the agent of a bare caller, which can't do so itself.
func (s *Scheduler) tickAccepted(t *ticket, now time.Time) {
	live := s.fleet.agents[t.agent.record.ID] == t.agent && t.agent.record.Epoch == t.epoch
	s.watchHedge(t, now)
	switch {
	case now.After(t.until.Add(keepalive)):
		s.drop(t) // the agent ended it
	case live:
		if now.Sub(t.said) >= askEvery {
			t.said = now
			s.holder.Ask(t.agent.record.ID, t.epoch, t.attempt, t.id)
		}
		s.tickHedge(t, now)
	case t.promote(now):
	case t.framed:
		s.drop(t) // the caller comes again
	default:
		s.fail(t, bus.Failure{Class: bus.ClassLost, Agent: t.agent.record.ID, Header: make(bus.Header)}, now)
	}
}
