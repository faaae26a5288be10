package schedule

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tokenbus/tokenbus/bus"
)

// All requests that wait for one model wait at one scheduler, its owner, so that
// there is one order. The owner is found by rendezvous hashing over the schedulers
// that live; everybody finds the same one. A request that has to wait is handed over
// to it, and so is one that need not wait while others do.

// peer is what a scheduler knows of another one.
type peer struct {
	at      time.Time
	waiting map[string]int // requests, by model
}

// maxHops bounds how often a request is handed over: when schedulers come and go, two
// may disagree for a moment on who the owner is.
const maxHops = 3

// handTimeout is how long a peer may take to confirm that it has a request.
const handTimeout = 500 * time.Millisecond

// heard takes another scheduler's beat.
func (s *Scheduler) heard(b bus.PeerBeat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Gone {
		delete(s.peers, b.ID)
		return
	}
	s.peers[b.ID] = peer{at: time.Now(), waiting: b.Waiting}
}

// owner is the scheduler at which requests for a model wait.
func (s *Scheduler) owner(model string) string {
	best, score := s.id, rendezvous(s.id, model)
	for id := range s.peers {
		if n := rendezvous(id, model); n > score || n == score && id < best {
			best, score = id, n
		}
	}
	return best
}

func rendezvous(scheduler, model string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(scheduler)
	_, _ = d.WriteString("\x00")
	_, _ = d.WriteString(model)
	return d.Sum64()
}

// othersWait reports whether requests for the model wait at its owner.
func (s *Scheduler) othersWait(model string) bool {
	if s.waiting.Depth(model) > 0 {
		return true
	}
	if len(s.peers) == 0 {
		return false
	}
	return s.peers[s.owner(model)].waiting[model] > 0
}

// handOver gives a ticket to the owner of its model's queue. It stays here until the
// owner confirms.
func (s *Scheduler) handOver(t *ticket, owner string, now time.Time) {
	t.waited, t.phase, t.sent = t.waitedFor(now), handing, now
	h := maps.Clone(t.m.Header)
	for _, name := range []string{bus.HeaderAttempt, bus.HeaderSched, bus.HeaderLabel, bus.HeaderPredicted, bus.HeaderFirstByte} {
		delete(h, name)
	}
	t.restore(h)
	bus.SetBudget(h, t.until.Sub(now))
	h[bus.HeaderTries] = []string{strconv.Itoa(t.tries)}
	h[bus.HeaderHops] = []string{strconv.Itoa(t.hops + 1)}
	h[bus.HeaderQueueMs] = []string{strconv.FormatInt(t.waited.Milliseconds(), 10)}
	if len(t.excluded) > 0 {
		h[bus.HeaderExclude] = []string{strings.Join(slices.Sorted(maps.Keys(t.excluded)), ",")}
	}
	s.counters.HandedOver++
	s.holder.HandOver(owner, &bus.Msg{Header: h, Data: t.m.Data}, t.id)
}

// handed hears whether the owner has a ticket.
func (s *Scheduler) handed(ticket string, taken bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tickets[ticket]
	switch {
	case t == nil || t.phase != handing:
	case taken:
		t.record.end("handed over")
		s.drop(t)
	default:
		s.keep(t, now)
	}
}

// keep lets a ticket wait here, because its owner can't be reached.
func (s *Scheduler) keep(t *ticket, now time.Time) {
	t.hops = maxHops
	s.enqueue(t, now)
}

// take takes a request that another scheduler hands over.
func (s *Scheduler) take(m *bus.Msg) {
	api := bus.API(bus.FirstHeader(m.Header, bus.HeaderAPI))
	request := &bus.Msg{
		Subject: bus.RequestSubject(bus.FirstHeader(m.Header, bus.HeaderModel), api), Reply: bus.FirstHeader(m.Header, bus.HeaderReply),
		Header: m.Header, Data: m.Data,
	}
	s.mu.Lock()
	leaving := s.leaving
	s.mu.Unlock()
	if leaving || request.Reply == "" || m.Reply == "" {
		return // it stays where it is
	}
	s.holder.Taken(m)
	s.request(request)
}

// announce tells the others for which models requests wait, when that has changed.
func (s *Scheduler) announce() {
	s.mu.Lock()
	now := make(map[string]int)
	if s.waiting.Len() > 0 || len(s.announced) > 0 {
		for model, n := range s.waiting.Models() {
			now[model] = n
		}
	}
	same := maps.EqualFunc(now, s.announced, func(int, int) bool { return true })
	s.announced = now
	s.mu.Unlock()
	if !same {
		s.sayAlive()
	}
}

// sayAlive says this scheduler's beat.
func (s *Scheduler) sayAlive() {
	s.mu.Lock()
	waiting := make(map[string]int)
	for model, n := range s.waiting.Models() {
		waiting[model] = n
	}
	aliases := s.policies.Aliases()
	s.mu.Unlock()
	s.link.SayPeer(bus.PeerBeat{ID: s.id, Waiting: waiting, Aliases: aliases})
}

// tickPeers forgets schedulers that are silent.
func (s *Scheduler) tickPeers(now time.Time) {
	for id, p := range s.peers {
		if now.Sub(p.at) > bus.StaleAfter {
			delete(s.peers, id)
		}
	}
}
