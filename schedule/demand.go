package schedule

import (
	"context"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// Times of the loads that requests ask for.
const (
	loadTimeout = 4 * time.Minute  // for an agent to load an adapter; it gives up before
	loadRetry   = 30 * time.Second // after a failure, until the same agent is asked again
)

// loads are the adapters that agents load because requests ask for them.
type loads struct {
	ctx  context.Context // ends with the scheduler's run; nil before
	bg   sync.WaitGroup
	byID map[string]*adapterLoad // by adapter
}

// adapterLoad is one of them.
type adapterLoad struct {
	busy   bool
	failed map[string]time.Time // agents that could not, and when
	why    string               // the last one could not
}

// demand makes an agent load the adapter that a ticket asks for, if its policy says so
// and too few agents have it. It reports whether the ticket may wait for that.
func (s *Scheduler) demand(t *ticket, verdict policy.Verdict, now time.Time) bool {
	a := t.policy.Adapter
	if a == nil || t.failure != nil || verdict != policy.NoModel && verdict != policy.NoHealthy && verdict != policy.NoCapacity || s.loads.ctx == nil {
		return false
	}
	if t.hops < maxHops && len(s.peers) > 0 && s.owner(t.model) != s.id {
		return true // its queue is elsewhere, and who keeps it loads
	}
	l := s.loads.byID[t.model]
	if l == nil {
		l = &adapterLoad{failed: make(map[string]time.Time)}
		s.loads.byID[t.model] = l
	}
	if l.busy {
		return true
	}
	base := s.fleet.models[a.Base]
	if base == nil {
		return false
	}
	out := make(map[string]bool)
	for id, at := range l.failed {
		if now.Sub(at) >= loadRetry {
			delete(l.failed, id)
		} else {
			out[id] = true
		}
	}
	have := 0
	if p := s.fleet.models[t.model]; p != nil {
		for _, v := range p.views {
			if out[v.record.ID] = true; v.look(now).Healthy {
				have++
			}
		}
	}
	if have >= a.Replicas {
		return false
	}
	for _, v := range base.views {
		v.look(now)
	}
	req := policy.Request{API: apiBit(t.api), Session: t.session, Failed: out, Random: s.random()}
	full := false
	for k := range t.policy.Steps {
		switch i, verdict := s.pool.Decide(&t.policy.Steps[k], &req, base.list); verdict {
		case policy.Chosen:
			l.busy = true
			agent := base.views[i].record.ID
			s.loads.bg.Go(func() { s.load(agent, t.model, a.PathOf(t.model), l) })
			return true
		case policy.NoCapacity:
			full = true
		}
	}
	return full
}

// load makes one agent load an adapter.
func (s *Scheduler) load(agent, adapter, path string, l *adapterLoad) {
	ctx, cancel := context.WithTimeout(s.loads.ctx, loadTimeout)
	defer cancel()
	s.log.Info("a request asks for an adapter that an agent is to load", "adapter", adapter, "agent", agent, "path", path)
	var said bus.AdapterAnswer
	err := s.link.Command(ctx, agent, "load", map[string]string{"adapter": adapter, "path": path, "by": "scheduler " + s.id, "reason": "a request asked for it"}, &said)
	why := said.Error
	if err != nil {
		why = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.busy = false
	if err == nil && said.OK {
		s.counters.Loads++
		l.why = ""
		return // its beat wakes who waits
	}
	s.counters.LoadsFailed++
	l.failed[agent], l.why = time.Now(), agent+": "+why
	s.log.Warn("an adapter was not loaded", "adapter", adapter, "agent", agent, "err", why)
}

// mayWait reports whether a ticket that nobody can serve now may wait.
func (s *Scheduler) mayWait(t *ticket, verdict policy.Verdict, now time.Time) bool {
	loads := s.demand(t, verdict, now)
	return loads || verdict == policy.NoCapacity || s.holds(t, verdict, now)
}
