package schedule

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/peek"
	"github.com/tokenbus/tokenbus/schedule/policy"
	"github.com/tokenbus/tokenbus/schedule/queue"
)

// phase is where a request stands.
type phase int

const (
	waitingPhase phase = iota // in its model's queue
	dispatched                // on its way to an agent, not answered
	accepted                  // an agent has it; no byte of the answer yet
	handing                   // on its way to the scheduler at which it waits
)

// ticket is one request that the scheduler answers for. It ends when the first
// byte of the answer has left its agent.
type ticket struct {
	id       string
	m        *bus.Msg // as it came, with our headers beside the caller's
	model    string
	alias    string // under which it was asked for, "" if it was not
	shadow   bool   // a copy: nobody waits for its answer
	api      bus.API
	reply    string
	framed   bool
	stream   bool
	came     time.Time
	until    time.Time // the request's deadline
	size     int       // bytes counted against the bound
	phase    phase
	tries    int // used
	attempts int // dispatches made
	excluded map[string]bool
	failure  *bus.Failure // of the last try

	policy    *policy.Policy // in force when it came
	copies    *policy.Shadow // who gets copies, nil if nobody does
	step      int            // of the policy that it has come to
	provided  bool           // the fallback provider has it or had it
	stepTries int            // used at that step
	hashes    []string       // of the prompt, as they came
	prefix    peek.Prefix    // the same, if the policy looks at them
	held      int            // blocks of it that the agent had
	session   uint64         // hash of the session key, 0 if there is none
	tokens    int64          // prompt and expected output, estimated
	record    *Decision

	tenant  string
	band    int                      // priority
	hops    int                      // schedulers that handed it over
	item    *queue.FairItem[*ticket] // its place, once it has waited
	queued  time.Time                // when it began to wait
	waited  time.Duration            // before
	said    time.Time                // when the caller last heard or was probed
	agent   *agentView               // that has it
	attempt string
	n       int // number of the attempt
	epoch   string
	sent    time.Time // when it was dispatched
	hedge   *hedge    // nil unless another attempt runs beside this one
	hedged  bool      // this attempt was begun as a hedge

	interest bus.Interest
}

// request takes one request from the bus.
func (s *Scheduler) request(m *bus.Msg) {
	now := time.Now()
	if m.Reply == "" {
		return // nobody could be answered
	}
	t, err := s.ticket(m, now)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.Requests++
	s.budget.request()
	s.hedges = min(s.hedges+hedgeShare, hedgeMost)
	t.id = s.ticketID()
	if err != nil {
		s.refuse(t, err)
		return
	}
	if s.leaving {
		s.republish(t, now)
		return
	}
	if s.bytes+t.size > s.cfg.MaxBytes {
		s.refuse(t, &bus.Error{Reason: bus.ReasonQueueFull, Message: "the scheduler holds as many bytes of requests as it may", RetryAfter: time.Second})
		return
	}
	s.tickets[t.id] = t
	s.bytes += t.size
	if err := s.adopt(t); err != nil {
		s.refuse(t, err)
		return
	}
	s.copyTo(t, now)
	s.place(t, now, false)
}

// ticket reads a request. The ticket is good enough to refuse it, whatever the
// error.
func (s *Scheduler) ticket(m *bus.Msg, now time.Time) (*ticket, *bus.Error) {
	t := &ticket{m: m, reply: m.Reply, came: now, size: len(m.Data)}
	if m.Header == nil {
		m.Header = make(bus.Header)
	}
	h := m.Header
	t.framed = bus.FirstHeader(h, bus.HeaderWindow) != ""
	var err error
	if t.model, t.api, err = bus.ParseRequestSubject(m.Subject); err != nil {
		return t, bus.Errorf(bus.ReasonBadRequest, "%w", err)
	}
	if !t.api.Known() {
		return t, bus.Errorf(bus.ReasonRouteNotFound, "the API %q does not exist", t.api)
	}
	if _, ok := t.api.EnginePath(bus.FirstHeader(h, bus.HeaderPath)); !ok {
		return t, bus.Errorf(bus.ReasonRouteNotFound, "the API %q has no path %q", t.api, bus.FirstHeader(h, bus.HeaderPath))
	}
	if bus.FirstHeader(h, bus.HeaderStream) == "" {
		if e := describe(t); e != nil {
			return t, e
		}
	}
	if limit := s.link.MaxPayload() - dispatchHeadroom; len(m.Data) > limit/2 && headerBytes(h)+len(m.Data) > limit {
		return t, bus.Errorf(bus.ReasonTooLarge, "the request has %d bytes with its headers, the limit of one message is %d", headerBytes(h)+len(m.Data), limit)
	}
	budget, ok := bus.Budget(h)
	if !ok {
		budget = bus.DefaultTimeout
	}
	t.until = now.Add(budget)
	if n, err := strconv.Atoi(bus.FirstHeader(h, bus.HeaderTries)); err == nil && n > 0 {
		t.tries = n
	}
	t.stream = bus.FirstHeader(h, bus.HeaderStream) == "1"
	t.session, _ = bus.Session(h)
	t.tenant = bus.FirstHeader(h, bus.HeaderTenant)
	t.band = bus.Priority(h)
	t.hops, _ = strconv.Atoi(bus.FirstHeader(h, bus.HeaderHops))
	if t.hops > 0 {
		t.alias = bus.FirstHeader(h, bus.HeaderAlias)
	} else {
		delete(h, bus.HeaderAlias)
	}
	delete(h, bus.HeaderShadow)
	if ms, err := strconv.ParseInt(bus.FirstHeader(h, bus.HeaderQueueMs), 10, 64); err == nil && t.hops > 0 && ms > 0 {
		t.waited = min(time.Duration(ms)*time.Millisecond, time.Hour)
	}
	prompt, output := bus.Tokens(h)
	t.tokens = prompt + output
	if list := bus.FirstHeader(h, bus.HeaderExclude); list != "" {
		for id := range strings.SplitSeq(list, ",") {
			t.exclude(id)
		}
	}
	h[bus.HeaderModel] = []string{t.model}
	h[bus.HeaderAPI] = []string{string(t.api)}
	h[bus.HeaderReply] = []string{t.reply}
	return t, nil
}

// dispatchHeadroom is what the headers of a dispatch may add to a request, in
// bytes. The limit of the bus counts headers.
const dispatchHeadroom = 4 << 10

func headerBytes(h bus.Header) int {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// describe looks at the body of a caller that did not say what it holds.
func describe(t *ticket) *bus.Error {
	h := t.m.Header
	for _, name := range []string{bus.HeaderSplice, bus.HeaderStrip, bus.HeaderBody, bus.HeaderSize} {
		delete(h, name)
	}
	contentType := "application/json"
	for name, v := range h {
		if strings.EqualFold(name, "Content-Type") && len(v) > 0 {
			contentType = v[0]
			delete(h, name)
			break
		}
	}
	h["Content-Type"] = []string{contentType}
	facts, err := bus.Peek(t.api, contentType, t.m.Data)
	if err != nil {
		return bus.AsError(err)
	}
	if facts.Model != "" && facts.Model != t.model {
		return &bus.Error{Reason: bus.ReasonBadRequest, Param: "model", Message: "the body names another model than the subject"}
	}
	bus.Describe(h, t.api, t.model, &facts, t.m.Data)
	if bus.FirstHeader(h, bus.HeaderID) == "" {
		h[bus.HeaderID] = []string{bus.NewRequestID()}
	}
	return nil
}

func (t *ticket) exclude(agent string) {
	if t.excluded == nil {
		t.excluded = make(map[string]bool)
	}
	if len(t.excluded) < 64 {
		t.excluded[agent] = true
	}
}

// adopt gives a ticket its policy, which it keeps whatever is applied later, and
// reads what that policy looks at.
func (s *Scheduler) adopt(t *ticket) *bus.Error {
	t.policy = s.policies.For(t.model)
	err := s.resolve(t)
	t.record = s.decisions.open(t, s.id)
	// The hashes are for schedulers; an agent need not carry them.
	t.hashes = t.m.Header[bus.HeaderPrefix]
	delete(t.m.Header, bus.HeaderPrefix)
	if t.policy.LooksAtPrefix() && len(t.hashes) > 0 {
		if p, err := peek.ParsePrefix(t.hashes[0], nil); err == nil {
			t.prefix = p
		}
		if t.tenant != "" && !t.policy.SharesTenants() {
			own := xxhash.Sum64String(t.tenant)
			for i := range t.prefix {
				t.prefix[i] ^= own
			}
		}
	}
	return err
}

// place dispatches a ticket, lets it wait, or refuses it. again tells that it was
// dispatched before and keeps its turn. s.mu is held.
func (s *Scheduler) place(t *ticket, now time.Time, again bool) {
	if t.shadow && again {
		s.drop(t) // it is not worth a second try
		return
	}
	if t.provided {
		s.exhausted(t, policy.AllFailed, now) // its body names another model now
		return
	}
	// Whoever waits goes first.
	if !again && s.othersWait(t.model) {
		s.wait(t, now)
		return
	}
	c := s.choose(t, now)
	switch {
	case c.verdict == policy.Chosen:
		s.send(t, c.view, c.step, now)
	case s.mayWait(t, c.verdict, now):
		s.wait(t, now)
	default:
		s.exhausted(t, c.verdict, now)
	}
}

// exhausted ends a ticket that no step of its policy can place.
func (s *Scheduler) exhausted(t *ticket, verdict policy.Verdict, now time.Time) {
	unknown := verdict == policy.NoModel && !s.fleet.known[t.model] && t.policy.Adapter == nil
	provided, hint := false, ""
	if !unknown {
		provided, hint = s.provide(t, now)
	}
	switch {
	case provided:
	case t.failure != nil:
		s.relay(t)
	case unknown:
		s.refuse(t, &bus.Error{
			Reason: bus.ReasonModelNotFound, Param: "model", Message: "The model `" + t.model + "` does not exist.",
			Hint: "GET /v1/models lists those that do",
		})
	case verdict == policy.AllFailed:
		s.refuse(t, bus.Errorf(bus.ReasonEngineLost, "every agent that serves the model failed the request"))
	default:
		e := &bus.Error{Reason: bus.ReasonNoAgents, Message: "no agent can serve the model `" + t.model + "` now", RetryAfter: 2 * time.Second}
		if why := t.record.drained(); why != "" {
			e.Message += ": " + why
		}
		if l := s.loads.byID[t.model]; l != nil && l.why != "" {
			e.Message += ": the adapter could not be loaded: " + l.why
		}
		e.Hint = hint
		s.meters.model(t.model, now).unserved++
		s.refuse(t, e)
	}
}

// wait puts a ticket into its model's queue, at the scheduler that owns it.
func (s *Scheduler) wait(t *ticket, now time.Time) {
	if t.hops < maxHops && len(s.peers) > 0 {
		if owner := s.owner(t.model); owner != s.id {
			s.handOver(t, owner, now)
			return
		}
	}
	s.enqueue(t, now)
}

// enqueue puts a ticket into the queue here. One that has waited gets its place back.
func (s *Scheduler) enqueue(t *ticket, now time.Time) {
	if t.item != nil {
		s.waiting.Return(t.item)
	} else {
		item, shed, err := s.waiting.Push(queue.Key{Model: t.model, Tenant: t.tenant, Band: t.band, Tokens: max(t.tokens, 1), Bytes: t.size}, t)
		for _, o := range shed {
			s.refuse(o, &bus.Error{Reason: bus.ReasonShed, RetryAfter: s.drainTime(t.model), Message: "a request of a higher priority took the place of this one in the queue"})
		}
		if err != nil {
			s.giveOut(t, now, &bus.Error{
				Reason: bus.ReasonQueueFull, RetryAfter: s.drainTime(t.model),
				Message: "all agents that serve the model are full, and " + strconv.Itoa(s.waiting.Depth(t.model)) + " requests wait",
			})
			return
		}
		t.item = item
		s.counters.Queued++
	}
	t.phase, t.queued, t.said = waitingPhase, now, now
	if t.framed {
		s.holder.Queued(t.reply, t.id)
	}
}

// giveOut ends a ticket for which there was no room in time: the fallback provider gets
// it, if there is one.
func (s *Scheduler) giveOut(t *ticket, now time.Time, e *bus.Error) {
	if provided, _ := s.provide(t, now); !provided {
		s.refuse(t, e)
	}
}

// serve takes a ticket out of its queue to be served.
func (s *Scheduler) serve(t *ticket, now time.Time) {
	if t.item == nil {
		// What never waited counts all the same for the fairness of those that do.
		s.waiting.Charge(t.model, t.tenant, t.band, t.tokens)
		return
	}
	if t.item.Waiting() {
		t.waited = t.waitedFor(now)
		s.waiting.Take(t.item)
		s.drained(t.model, now)
	}
}

// waitedFor is how long a ticket has waited for room, in all.
func (t *ticket) waitedFor(now time.Time) time.Duration {
	if t.item == nil || !t.item.Waiting() {
		return t.waited
	}
	return t.waited + now.Sub(t.queued)
}

// send dispatches a ticket to the agent that a step of its policy gave.
func (s *Scheduler) send(t *ticket, v *agentView, step int, now time.Time) {
	delete(t.m.Header, bus.HeaderFirstByte)
	if d := t.policy.Steps[step].FirstByteTimeout; d > 0 {
		t.m.Header[bus.HeaderFirstByte] = []string{strconv.FormatInt(max(d.Milliseconds(), 1), 10)}
	}
	if step != t.step {
		t.step, t.stepTries = step, 0
	}
	s.dispatch(t, v, t.policy.Label(step), now)
}

// dispatch sends a ticket to an agent, which accepts or refuses it.
func (s *Scheduler) dispatch(t *ticket, v *agentView, label string, now time.Time) {
	if !t.shadow {
		s.serve(t, now)
		s.meters.dispatched(t, label, now)
	}
	t.attempts++
	t.hedged = false
	t.n, t.attempt = t.attempts, s.holder.AttemptID(t.id, t.attempts, false)
	t.phase, t.agent, t.epoch, t.sent = dispatched, v, v.record.Epoch, now
	v.pending[t.attempt] = t.tokens
	v.breaker.sent(t.attempt)
	v.tried = now
	s.expect(t, v)
	s.counters.Dispatches++
	s.address(t, t.tries, label, now)
	if err := s.holder.Dispatch(t.m, v.record.ID, t.epoch, t.id, t.attempt, t.n); err != nil {
		// The bus is away. The clock comes back to it.
		s.log.Debug("dispatch not sent", "attempt", t.attempt, "err", err)
	}
}

// address writes into the headers of a request what one dispatch says of itself.
func (s *Scheduler) address(t *ticket, tries int, label string, now time.Time) {
	h := t.m.Header
	bus.SetBudget(h, t.until.Sub(now))
	h[bus.HeaderTries] = []string{strconv.Itoa(tries)}
	if ms := t.waited.Milliseconds(); ms > 0 {
		h[bus.HeaderQueueMs] = []string{strconv.FormatInt(ms, 10)}
	}
	h[bus.HeaderLabel] = []string{label}
}

// drop forgets a ticket.
func (s *Scheduler) drop(t *ticket) {
	if s.tickets[t.id] != t {
		return
	}
	if t.item != nil {
		s.waiting.Remove(t.item)
	}
	if t.agent != nil {
		delete(t.agent.pending, t.attempt)
		t.agent.breaker.neutral(t.attempt)
	}
	t.endHedge()
	delete(s.tickets, t.id)
	s.bytes -= t.size
}

// refuse ends a ticket with an error made here.
func (s *Scheduler) refuse(t *ticket, e *bus.Error) {
	if t.shadow {
		s.drop(t)
		return
	}
	s.counters.Rejected[e.Reason]++
	t.record.end(string(e.Reason))
	s.holder.Refuse(t.reply, t.id, t.framed, e)
	s.drop(t)
}

// relay ends a ticket with what its last try brought.
func (s *Scheduler) relay(t *ticket) {
	if t.shadow {
		s.drop(t)
		return
	}
	s.counters.Rejected[t.failure.Err().Reason]++
	t.record.end(string(t.failure.Err().Reason))
	s.holder.Relay(t.reply, t.id, t.framed, *t.failure, max(t.tries, 1))
	s.drop(t)
}

// republish hands a ticket over to the other schedulers, as it came.
func (s *Scheduler) republish(t *ticket, now time.Time) {
	// Under its alias, if it has one, which the next scheduler takes for a model again.
	m := &bus.Msg{Subject: bus.RequestSubject(cmp.Or(t.alias, t.model), t.api), Reply: t.reply, Header: t.m.Header, Data: t.m.Data}
	for _, name := range []string{bus.HeaderModel, bus.HeaderAPI, bus.HeaderReply, bus.HeaderAttempt, bus.HeaderSched, bus.HeaderLabel, bus.HeaderPredicted, bus.HeaderHops, bus.HeaderFirstByte, bus.HeaderAlias} {
		delete(m.Header, name)
	}
	t.restore(m.Header)
	bus.SetBudget(m.Header, t.until.Sub(now))
	s.holder.Republish(m)
	s.drop(t)
}

// restore puts back what adopt took from the headers, for another scheduler.
func (t *ticket) restore(h bus.Header) {
	if len(t.hashes) > 0 {
		h[bus.HeaderPrefix] = t.hashes
	}
}
