package bus

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// How long a silent agent or scheduler counts.
const (
	BeatEvery    = time.Second
	BeatCoalesce = 20 * time.Millisecond
	StaleAfter   = 3 * time.Second // an agent silent for so long is not chosen
	GoneAfter    = 6 * time.Second // an agent silent for so long is gone
	RememberFor  = 5 * time.Minute // an agent silent for so long is no longer shown to operators
)

// Fleet is the live view that beats give: which agents and schedulers there are.
// It needs no JetStream. It is safe for concurrent use.
type Fleet struct {
	subs []*nats.Subscription

	mu         sync.Mutex
	agents     map[string]seenAgent
	schedulers map[string]seenScheduler
}

type seenScheduler struct {
	at      time.Time
	aliases map[string][]string
	waiting map[string]int
}

type seenAgent struct {
	record Record
	at     time.Time
}

// WatchFleet subscribes to beats and asks everyone to beat. Close it after use.
func WatchFleet(l *Link) (*Fleet, error) {
	f := &Fleet{agents: make(map[string]seenAgent), schedulers: make(map[string]seenScheduler)}
	for subject, handle := range map[string]func(*Msg){AllBeats: f.agentBeat, AllSchedBeats: f.schedulerBeat} {
		sub, err := subscribe(l.Control, subject, "", handle)
		if err != nil {
			f.Close()
			return nil, err
		}
		f.subs = append(f.subs, sub)
	}
	l.Poll()
	return f, nil
}

// Poll asks every agent and scheduler to beat now.
func (l *Link) Poll() { l.publishInfo(PollSubject, nil) }

// Close ends the subscriptions.
func (f *Fleet) Close() {
	for _, sub := range f.subs {
		_ = sub.Unsubscribe()
	}
}

func (f *Fleet) agentBeat(m *Msg) {
	r, err := DecodeRecord(m.Data)
	if err != nil {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	old, known := f.agents[r.ID]
	merged, ok := Merge(old.record, r, known && now.Sub(old.at) < GoneAfter)
	switch {
	case !ok:
	case merged.Status == StatusGone:
		delete(f.agents, r.ID)
	default:
		f.agents[r.ID] = seenAgent{merged, now}
	}
}

func (f *Fleet) schedulerBeat(m *Msg) {
	b, ok := decodePeerBeat(m)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.Gone {
		delete(f.schedulers, b.ID)
		return
	}
	f.schedulers[b.ID] = seenScheduler{time.Now(), b.Aliases, b.Waiting}
}

// DecodeRecord reads a beat or a record.
func DecodeRecord(data []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(data, &r)
	return r, err
}

// Merge applies what an agent said to what it said before. ok is false if it is
// not news: out of order, from an epoch that is over, or a short beat of an agent
// whose record is not known. live tells whether old still counts.
func Merge(old, said Record, live bool) (r Record, ok bool) {
	same := live && old.ID == said.ID && old.Epoch == said.Epoch
	switch {
	case same && said.Seq < old.Seq:
		return old, false
	case said.Status == StatusGone && live && !same:
		return old, false // another process of that id lives
	case live && !same && said.Started.Before(old.Started):
		return old, false // a late beat of the process before
	case said.Full, said.Status == StatusGone:
		return said, true
	case !same:
		return old, false
	}
	old.State = said.State
	return old, true
}

// Agents are the agents that were heard within GoneAfter, by id.
func (f *Fleet) Agents() []Record {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Record
	for _, id := range slices.Sorted(maps.Keys(f.agents)) {
		switch a := f.agents[id]; {
		case now.Sub(a.at) < GoneAfter:
			list = append(list, a.record)
		case now.Sub(a.at) >= RememberFor:
			delete(f.agents, id)
		}
	}
	return list
}

// Sighting is what was last heard of an agent.
type Sighting struct {
	Record Record
	At     time.Time // when that was, by the clock of the watcher
}

// Sightings are the agents that were heard within RememberFor and did not say that they
// leave, by id: those that are silent, too.
func (f *Fleet) Sightings() []Sighting {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []Sighting
	for _, id := range slices.Sorted(maps.Keys(f.agents)) {
		if a := f.agents[id]; now.Sub(a.at) < RememberFor {
			list = append(list, Sighting{a.record, a.at})
		}
	}
	return list
}

// Waiting is the number of requests that wait in the queues of the schedulers, by model.
func (f *Fleet) Waiting() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidy(time.Now())
	all := make(map[string]int)
	for _, s := range f.schedulers {
		for model, n := range s.waiting {
			all[model] += n
		}
	}
	return all
}

// Schedulers is the number of schedulers that were heard within StaleAfter.
func (f *Fleet) Schedulers() int {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidy(now)
	return len(f.schedulers)
}

func (f *Fleet) tidy(now time.Time) {
	for id, s := range f.schedulers {
		if now.Sub(s.at) > StaleAfter {
			delete(f.schedulers, id)
		}
	}
}

// Aliases are the names that schedulers take for one of several models, with those
// models.
func (f *Fleet) Aliases() map[string][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidy(time.Now())
	all := make(map[string][]string)
	for _, s := range f.schedulers {
		maps.Copy(all, s.aliases)
	}
	return all
}
