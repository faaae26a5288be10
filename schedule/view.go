package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// agentView is what a scheduler believes of one agent.
type agentView struct {
	record  bus.Record
	at      time.Time       // last heard
	pending map[string]bool // attempts dispatched and not heard back about
	partial bool            // it was taken out of a model's list since its last full beat
	suspect bool            // it did not answer a dispatch, and has not beaten since
}

func (v *agentView) load() int { return v.record.Active + len(v.pending) }

func (v *agentView) healthy() bool {
	return !v.suspect && v.record.Status == bus.StatusReady && v.record.EngineHealth == "ok"
}

func (v *agentView) room() bool { return v.healthy() && v.load() < v.record.Capacity }

// fleet is the set of agents, with the models that they serve.
type fleet struct {
	agents map[string]*agentView
	models map[string][]*agentView // in the order of ids
	known  map[string]bool         // models ever served

	buf []policy.Agent // reused by pick
}

// maxKnown bounds the set of models that are remembered.
const maxKnown = 10_000

func newFleet() *fleet {
	return &fleet{agents: make(map[string]*agentView), models: make(map[string][]*agentView), known: make(map[string]bool)}
}

// say applies what an agent said; v is nil if that changed nothing, and fresh
// tells that a new process speaks.
func (f *fleet) say(r bus.Record, now time.Time) (v *agentView, fresh bool) {
	v = f.agents[r.ID]
	var old bus.Record
	live := false
	if v != nil {
		old, live = v.record, now.Sub(v.at) < bus.GoneAfter
	}
	merged, ok := bus.Merge(old, r, live)
	if !ok {
		return nil, false
	}
	if merged.Status == bus.StatusGone {
		if v != nil {
			f.remove(v)
		}
		return nil, false
	}
	if v == nil {
		v = &agentView{pending: make(map[string]bool)}
		f.agents[r.ID] = v
	}
	fresh = old.Epoch != merged.Epoch
	if fresh {
		clear(v.pending)
	}
	relist := fresh || v.partial && r.Full || !slices.EqualFunc(old.Models, merged.Models, func(a, b bus.Model) bool { return a.ID == b.ID })
	if relist {
		f.unlist(v)
	}
	v.record, v.at, v.suspect = merged, now, false
	if relist {
		f.list(v)
		v.partial = false
	}
	return v, fresh
}

// state applies the short form of what an agent said.
func (f *fleet) state(s bus.State, now time.Time) *agentView {
	v := f.agents[s.ID]
	if v == nil || v.record.Epoch != s.Epoch {
		return nil
	}
	v.at, v.suspect = now, false
	if s.Seq >= v.record.Seq {
		s.Full = v.record.Full
		v.record.State = s
	}
	return v
}

func (f *fleet) list(v *agentView) {
	for _, m := range v.record.Models {
		l := f.models[m.ID]
		i, listed := slices.BinarySearchFunc(l, v.record.ID, func(a *agentView, id string) int { return cmp.Compare(a.record.ID, id) })
		if listed {
			continue // it names the model twice
		}
		f.models[m.ID] = slices.Insert(l, i, v)
		f.remember(m.ID)
	}
}

func (f *fleet) remember(model string) {
	if len(f.known) < maxKnown {
		f.known[model] = true
	}
}

func (f *fleet) unlist(v *agentView) {
	for _, m := range v.record.Models {
		f.unserve(v, m.ID)
	}
}

// unserve takes one model from an agent, until its next full beat says otherwise.
func (f *fleet) unserve(v *agentView, model string) {
	v.partial = true
	l := f.models[model]
	if i := slices.Index(l, v); i >= 0 {
		l = slices.Delete(l, i, i+1)
	}
	if len(l) == 0 {
		delete(f.models, model)
	} else {
		f.models[model] = l
	}
}

func (f *fleet) remove(v *agentView) {
	f.unlist(v)
	delete(f.agents, v.record.ID)
}

// pick chooses an agent for a model.
func (f *fleet) pick(model string, excluded map[string]bool, now time.Time) (*agentView, policy.Verdict) {
	serving := f.models[model]
	f.buf = f.buf[:0]
	for _, v := range serving {
		f.buf = append(f.buf, policy.Agent{
			ID: v.record.ID, Fresh: now.Sub(v.at) < bus.StaleAfter, Healthy: v.healthy(), Failed: excluded[v.record.ID],
			Active: v.load(), Capacity: v.record.Capacity,
		})
	}
	i, verdict := policy.Pick(f.buf, policy.LeastLoaded)
	if i < 0 {
		return nil, verdict
	}
	return serving[i], verdict
}
