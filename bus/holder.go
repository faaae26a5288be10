package bus

import (
	"strconv"

	"github.com/nats-io/nats.go"
)

// Holder is the scheduler's side of the request protocol: it speaks to the callers
// of requests that no agent has accepted yet, and hears them.
type Holder struct {
	id     string
	nc     *nats.Conn
	prefix string
	subs   []*nats.Subscription
}

// HolderHandlers are called on the subscriptions' goroutines and must not block.
type HolderHandlers struct {
	Notes      func(State, []AttemptNote)      // what an agent says of its attempts
	Failed     func(attempt string, f Failure) // an attempt failed before its first byte
	Cancel     func(ticket string)             // the caller gave up
	Ping       func(ticket string)             // the caller asks whether its request is held
	Gone       func(ticket string)             // the agent knows nothing of the attempt any more
	Nobody     func(ticket string)             // nobody listens to the caller's inbox
	NoDispatch func(ticket string, try int)    // a dispatch reached nobody
	Beat       func(Record)                    // an agent's beat
	Placed     func([]Placement)               // where another scheduler sent prompts
	Peer       func(PeerBeat)                  // another scheduler's beat
	Take       func(m *Msg)                    // a request that another scheduler hands over; answer with [Holder.Taken]
	Handed     func(ticket string, taken bool) // another scheduler has taken a request, or there is none
}

// NewHolder subscribes to everything but requests; see [Holder.Open].
func NewHolder(l *Link, scheduler string, h HolderHandlers) (*Holder, error) {
	o := &Holder{id: scheduler, nc: l.Data[0], prefix: SchedulerControlPrefix(scheduler)}
	add := func(nc *nats.Conn, subject string, f func(*Msg)) error {
		sub, err := subscribe(nc, subject, "", f)
		if err == nil {
			o.subs = append(o.subs, sub)
		}
		return err
	}
	var notes []AttemptNote
	err := add(o.nc, SchedulerAckSubject(scheduler), func(m *Msg) {
		state, list, ok := DecodeNotes(m.Data, notes[:0])
		if ok {
			h.Notes(state, list)
		}
		notes = list
	})
	if err == nil {
		err = add(l.Control, SchedulerFailSubject(scheduler, "*"), func(m *Msg) {
			_ = m.Respond(nil)
			h.Failed(DecodeFailure(m))
		})
	}
	if err == nil {
		beat := func(m *Msg) {
			if r, err := DecodeRecord(m.Data); err == nil {
				h.Beat(r)
			}
		}
		if err = add(l.Control, AllBeats, beat); err == nil {
			err = add(l.Control, AllStates, beat)
		}
	}
	if err == nil {
		own := PlacedSubject(scheduler)
		err = add(l.Control, AllPlaced, func(m *Msg) {
			if m.Subject != own {
				h.Placed(DecodePlacements(m.Data))
			}
		})
	}
	if err == nil {
		own := SchedulerBeatSubject(scheduler)
		err = add(l.Control, AllSchedBeats, func(m *Msg) {
			if b, ok := decodePeerBeat(m); ok && m.Subject != own {
				h.Peer(b)
			}
		})
	}
	if err == nil {
		err = add(o.nc, takeSubject(scheduler), h.Take)
	}
	if err == nil {
		err = add(o.nc, o.prefix+">", func(m *Msg) { o.control(m, h) })
	}
	if err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

// Open joins the queue group that takes requests; the returned function leaves it.
func (o *Holder) Open(request func(*Msg)) (leave func(), err error) {
	sub, err := subscribe(o.nc, AllRequests, SchedulerGroup, request)
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Drain() }, nil
}

// Close ends the subscriptions.
func (o *Holder) Close() {
	for _, sub := range o.subs {
		_ = sub.Unsubscribe()
	}
}

func (o *Holder) control(m *Msg, h HolderHandlers) {
	ticket, verb, seq, ok := parseControl(m.Subject[len(o.prefix):])
	switch {
	case !ok:
	case verb == verbGone:
		h.Gone(ticket)
	case verb == verbHanded:
		h.Handed(ticket, !noResponders(m))
	case noResponders(m):
		if verb == verbDispatch {
			h.NoDispatch(ticket, int(seq))
		} else {
			h.Nobody(ticket)
		}
	case verb == verbCancel:
		h.Cancel(ticket)
	case verb == verbPing:
		h.Ping(ticket)
	}
}

// The words below a scheduler's control subjects, beside those of callers: the
// reply subjects of a dispatch, of verbAsk and of a request that is handed over.
const (
	verbDispatch = "dispatch"
	verbGone     = "gone"
	verbHanded   = "handed"
)

// AttemptID names the n-th attempt of a ticket, the first being 1. A hedge runs beside
// the attempt before it; its name says so to the caller, which takes the one that
// answers first.
func (o *Holder) AttemptID(ticket string, n int, hedge bool) string {
	id := o.id + "-" + ticket + "-" + strconv.Itoa(n)
	if hedge {
		id += hedgeMark
	}
	return id
}

// hedgeMark ends the id of an attempt that runs beside another one.
const hedgeMark = "h"

// Dispatch publishes a request to an agent, as the n-th attempt of a ticket with that
// id. The headers of m are edited.
func (o *Holder) Dispatch(m *Msg, agent, epoch, ticket, attempt string, n int) error {
	set(m.Header, HeaderAttempt, attempt)
	set(m.Header, HeaderSched, o.id)
	return o.nc.PublishMsg(&nats.Msg{
		Subject: DispatchSubject(agent, epoch), Reply: o.prefix + ticket + "." + verbDispatch + "." + strconv.Itoa(n),
		Header: m.Header, Data: m.Data,
	})
}

// CancelAttempt tells an agent that an attempt is not wanted.
func (o *Holder) CancelAttempt(agent, epoch, attempt string) {
	_ = o.nc.Publish(AgentControlPrefix(agent, epoch)+attempt+"."+verbCancel, nil)
}

// Nowhere is the inbox of a request whose answer nobody wants.
func (o *Holder) Nowhere(ticket string) string { return o.prefix + ticket + ".nowhere" }

// Yield tells an agent that another attempt has begun to answer: it drops this one,
// unless that has begun, too.
func (o *Holder) Yield(agent, epoch, attempt string) {
	_ = o.nc.Publish(AgentControlPrefix(agent, epoch)+attempt+"."+verbYield, nil)
}

// Ask asks an agent whether it still knows an attempt; [HolderHandlers.Gone] hears
// it if not, or if there is no such agent.
func (o *Holder) Ask(agent, epoch, attempt, ticket string) {
	_ = o.nc.PublishRequest(AgentControlPrefix(agent, epoch)+attempt+"."+verbAsk, o.prefix+ticket+"."+verbGone, nil)
}

// Queued tells a framed caller that its request is held.
func (o *Holder) Queued(reply, ticket string) {
	_ = o.nc.PublishRequest(reply, frameReply(o.prefix+ticket, KindQueued, 0), nil)
}

// Probe asks the server whether the caller still listens; [HolderHandlers.Nobody]
// hears it if not.
func (o *Holder) Probe(reply, ticket string) { probe(o.nc, reply, o.prefix+ticket) }

// Refuse ends a request with an error.
func (o *Holder) Refuse(reply, ticket string, framed bool, e *Error) {
	h := make(Header, 6)
	e.SetHeaders(h)
	o.answer(reply, ticket, framed, KindError, 0, h, e.JSON())
}

// Relay ends a request with what the engine said of its last attempt.
func (o *Holder) Relay(reply, ticket string, framed bool, f Failure, attempts int) {
	receipt := make(Header, 8)
	set(receipt, HeaderAgent, f.Agent)
	set(receipt, HeaderAttempts, strconv.Itoa(attempts))
	h, body, engine := f.answer(receipt)
	kind, seq := KindError, uint64(0)
	if engine {
		kind, seq = KindWhole, 1
		if !framed {
			f.Err().SetHeaders(h)
			set(h, HeaderErrorCode, strconv.Itoa(f.Status))
		}
	}
	o.answer(reply, ticket, framed, kind, seq, h, body)
}

func (o *Holder) answer(reply, ticket string, framed bool, kind Kind, seq uint64, h Header, body []byte) {
	m := &nats.Msg{Subject: reply, Header: h, Data: body}
	if framed {
		m.Reply = frameReply(o.prefix+ticket, kind, seq)
	}
	_ = o.nc.PublishMsg(m)
}

// Republish hands a request over to the other schedulers.
func (o *Holder) Republish(m *Msg) { _ = o.nc.PublishMsg(m) }
