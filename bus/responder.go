package bus

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Timings of the request protocol. A keepalive goes to each quiet stream; each
// caller is probed more often, so that a dead one is known, and its engines are
// freed, within a second (invariant 8).
const (
	tick           = 100 * time.Millisecond
	keepaliveEvery = time.Second
	greetAfter     = 50 * time.Millisecond // without a frame, a caller is told that its request was accepted
	probeEvery     = 200 * time.Millisecond
	reconnectGrace = 3 * time.Second  // after our own reconnect, others may still be on their way
	ackEvery       = 2 * time.Second  // callers acknowledge at least so often
	silentAfter    = 15 * time.Second // no acknowledgement for so long is a dead caller
	lingerFor      = 10 * time.Second // how long an ended stream can be asked for again
	forgetAfter    = 2 * time.Minute  // without a bus, nobody will ask any more
)

// Responder is the agent's side of the request protocol: it owns the control
// subjects of an agent process and the senders of its attempts.
type Responder struct {
	nc     *nats.Conn
	link   *Link
	prefix string
	stall  time.Duration

	sub *nats.Subscription

	mu        sync.Mutex
	senders   map[string]*Sender
	callers   map[string]*caller
	refused   map[string]time.Time // attempts cancelled before they came
	connected bool
	turned    time.Time // when connected last changed
}

// caller is one reply inbox prefix: one connection of a gateway, or one bare
// caller.
type caller struct {
	streams  int
	sample   *Sender   // any of its streams
	lastSent time.Time // of a probe
	interest Interest
}

// maxRefused bounds the set of attempts that were cancelled before they came.
const maxRefused = 4096

// NewResponder subscribes to the control subjects of an agent process. stall is
// how long a caller may leave its window full. The caller runs [Responder.Run].
func NewResponder(link *Link, agent, epoch string, stall time.Duration) (*Responder, error) {
	r := &Responder{
		nc: link.Data[0], link: link, prefix: AgentControlPrefix(agent, epoch), stall: stall, connected: true,
		senders: make(map[string]*Sender), callers: make(map[string]*caller), refused: make(map[string]time.Time),
	}
	var err error
	if r.sub, err = subscribe(r.nc, r.prefix+">", "", r.control); err != nil {
		return nil, err
	}
	return r, nil
}

// Run sends keepalives and watches over callers until ctx ends, then cancels what
// is left.
func (r *Responder) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	defer func() { _ = r.sub.Unsubscribe() }()
	for {
		select {
		case <-ctx.Done():
			for _, s := range r.all() {
				s.die(Errorf(ReasonAgentLost, "the agent stopped"))
			}
			return nil
		case now := <-t.C:
			r.tick(now)
		}
	}
}

// Open registers the sender of a dispatch. cancel is called, once, when the work
// is not wanted any more. ok is false if it was cancelled before it came.
func (r *Responder) Open(m *Msg, cancel context.CancelCauseFunc) (s *Sender, ok bool) {
	attempt := get(m.Header, HeaderAttempt)
	now := time.Now()
	window := windowFrom(m.Header)
	s = &Sender{
		r: r, attempt: attempt, reply: get(m.Header, HeaderReply), control: r.prefix + attempt, window: window, framed: window > 0,
		cancel: cancel, room: make(chan struct{}, 1), next: 1, lastSent: now, lastHeard: now,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, was := r.refused[attempt]; was {
		delete(r.refused, attempt)
		return nil, false
	}
	r.senders[attempt] = s
	if get(m.Header, HeaderShadow) == "1" {
		s.shadow, s.framed = true, false
		return s, true // there is no caller to watch over
	}
	key := callerKey(s)
	c := r.callers[key]
	if c == nil {
		c = &caller{}
		r.callers[key] = c
	}
	c.streams++
	c.sample = s
	return s, true
}

// callerKey groups the streams that share one connection of a caller.
func callerKey(s *Sender) string {
	if i := strings.LastIndexByte(s.reply, '.'); s.framed && i > 0 {
		return s.reply[:i]
	}
	return s.reply
}

// Streams is the number of streams that are open or linger.
func (r *Responder) Streams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.senders)
}

// Settle waits until the ends of all answers were acknowledged, or given up.
func (r *Responder) Settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lingerFor)
	defer cancel()
	for r.Streams() > 0 && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(tick / 2):
		}
	}
}

func (r *Responder) forget(s *Sender) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.senders[s.attempt] != s {
		return
	}
	delete(r.senders, s.attempt)
	key := callerKey(s)
	c := r.callers[key]
	if c == nil {
		return
	}
	if c.streams--; c.streams == 0 {
		delete(r.callers, key)
		return
	}
	if c.sample == s {
		c.sample = nil // tick finds another
	}
}

func (r *Responder) all() []*Sender {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*Sender, 0, len(r.senders))
	for _, s := range r.senders {
		list = append(list, s)
	}
	return list
}

// control handles what callers say about an attempt, and what the server says
// about callers.
func (r *Responder) control(m *Msg) {
	id, verb, seq, ok := parseControl(m.Subject[len(r.prefix):])
	if !ok {
		return
	}
	r.mu.Lock()
	s := r.senders[id]
	if s == nil {
		if (verb == verbCancel || verb == verbYield) && len(r.refused) < maxRefused {
			r.refused[id] = time.Now()
		}
		r.mu.Unlock()
		if verb == verbAsk && m.Reply != "" {
			_ = r.nc.Publish(m.Reply, nil)
		}
		return
	}
	c := r.callers[callerKey(s)]
	if noResponders(m) {
		if c != nil {
			c.interest.Nobody(time.Now())
		}
		r.mu.Unlock()
		return
	}
	if c != nil && verb != verbAsk && verb != verbYield {
		c.interest = Interest{}
	}
	r.mu.Unlock()
	switch verb {
	case verbAck:
		if s.ack(seq) {
			r.forget(s)
		}
	case verbResend:
		s.resend(seq)
	case verbCancel:
		s.die(Errorf(ReasonCancelled, "the caller went away"))
	case verbYield:
		s.yield()
	case verbPing:
		s.hint(KindKeepalive)
	}
}

// noResponders reports whether the server says that nobody listened.
func noResponders(m *Msg) bool {
	return len(m.Data) == 0 && len(m.Header) > 0 && get(m.Header, "Status") == "503"
}

func (r *Responder) tick(now time.Time) {
	up := r.nc.IsConnected()
	r.mu.Lock()
	if up != r.connected {
		r.turned = now
		for _, c := range r.callers {
			c.interest = Interest{}
		}
	}
	r.connected = up
	for id, at := range r.refused {
		if now.Sub(at) > time.Minute {
			delete(r.refused, id)
		}
	}
	settled := up && now.Sub(r.turned) > reconnectGrace
	gone := make(map[string]bool)
	var probes []*Sender
	for key, c := range r.callers {
		if !up {
			continue
		}
		if c.interest.Gone(now) && settled {
			gone[key] = true
			continue
		}
		if c.sample != nil && now.Sub(c.lastSent) >= probeEvery {
			c.lastSent = now
			c.interest.Probed()
			probes = append(probes, c.sample)
		}
	}
	list := make([]*Sender, 0, len(r.senders))
	for _, s := range r.senders {
		if c := r.callers[callerKey(s)]; c != nil && c.sample == nil {
			c.sample = s
		}
		list = append(list, s)
	}
	turned := r.turned
	r.mu.Unlock()

	for _, s := range probes {
		probe(r.nc, s.reply, s.control)
	}
	for _, s := range list {
		if gone[callerKey(s)] {
			s.die(Errorf(ReasonCancelled, "nobody listens to the caller's inbox"))
			continue
		}
		if up || now.Sub(turned) > forgetAfter {
			r.watch(s, now, turned)
		}
	}
}

// watch does for one stream what time asks for.
func (r *Responder) watch(s *Sender, now, lastUp time.Time) {
	s.mu.Lock()
	quiet := now.Sub(s.lastSent)
	heard := now.Sub(later(s.lastHeard, lastUp))
	full := !s.fullSince.IsZero() && now.Sub(s.fullSince) > r.stall
	greet := !s.greeted && quiet >= greetAfter
	s.greeted = s.greeted || greet
	lingered := s.ended && now.Sub(later(s.endedAt, lastUp)) > lingerFor
	s.mu.Unlock()
	switch {
	case !s.framed:
	case lingered:
		r.forget(s)
	case heard > silentAfter:
		s.die(Errorf(ReasonCancelled, "the caller's acknowledgements stopped"))
	case full:
		err := Errorf(ReasonSlowCaller, "the caller did not read its stream for %v", r.stall)
		s.fail(err)
		s.die(err)
	case greet:
		s.hint(KindAccepted)
	case quiet >= keepaliveEvery:
		s.hint(KindKeepalive)
	}
}

// fail sends an error frame past the window, for a stream that is about to die.
func (s *Sender) fail(err *Error) {
	hdr := make(Header)
	err.SetHeaders(hdr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && !s.ended {
		s.publish(&frame{kind: KindError, hdr: hdr, data: err.JSON()}, s.next)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
