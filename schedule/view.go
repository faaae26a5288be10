package schedule

import (
	"cmp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// agentView is what a scheduler believes of one agent.
type agentView struct {
	record  bus.Record
	at      time.Time        // last heard
	pending map[string]int64 // attempts dispatched and not heard back about, with their tokens
	partial bool             // it was taken out of a model's list since its last full beat
	suspect bool             // it did not answer a dispatch, and has not beaten since
	slot    int              // its number in the prefix index
	told    time.Time        // when it last said its signals
	breaker breaker
	tried   time.Time // when it last got a request

	agent policy.Agent // what a decision sees; current only within pick
}

func (v *agentView) load() int { return v.record.Active + len(v.pending) }

func (v *agentView) healthy() bool {
	return !v.suspect && v.record.Status == bus.StatusReady && v.record.EngineHealth == bus.HealthOK
}

func (v *agentView) room() bool { return v.healthy() && v.load() < v.record.Capacity }

// signalsFor is how long measurements are believed (invariant 11: a stale one is a
// missing one).
const signalsFor = 5 * time.Second

// historyRest is how long an agent that a gate on its history excludes gets nothing,
// before one request may show that it has recovered.
const historyRest = 5 * time.Second

// look brings the agent that a decision sees up to date.
func (v *agentView) look(now time.Time) *policy.Agent {
	a := &v.agent
	a.Healthy = v.healthy() && now.Sub(v.at) < bus.StaleAfter
	a.Active, a.Capacity = v.load(), v.record.Capacity
	a.Tokens = v.record.Tokens
	for _, n := range v.pending {
		a.Tokens += n
	}
	a.Open = !v.breaker.admits(now)
	a.Probe = now.Sub(v.tried) >= historyRest
	if now.Sub(v.told) > signalsFor && !v.told.IsZero() {
		v.told = time.Time{}
		a.Signals = policy.Unknown()
	}
	return a
}

// learn takes what a full record says beside the state.
func (v *agentView) learn(now time.Time) {
	r, a := &v.record, &v.agent
	a.ID, a.Hash = r.ID, xxhash.Sum64String(r.ID)
	models := a.Facts.Models[:0]
	for _, m := range r.Models {
		models = append(models, m.ID)
	}
	a.Facts = policy.Facts{
		Region: r.Region, Engine: r.Engine, EngineVersion: r.EngineVersion, Organization: r.Organization, Machine: r.Machine,
		GPUModel: r.GPUModel, Tags: r.Tags, Models: models,
	}
	a.APIs = 0
	for _, api := range r.APIs {
		a.APIs |= apiBit(api)
	}
	a.Signals.Read(r.Signals)
	v.told = now.Add(-time.Duration(r.SignalAgeMS) * time.Millisecond)
	a.Trust = trust(r.Signals)
	if r.PrefixCaching != nil && !*r.PrefixCaching {
		a.Trust = leastTrust
	}
}

// apiBit gives each API a bit of its own; one that is not known has none.
func apiBit(api bus.API) uint32 { return apiBits[api] }

var apiBits = func() map[bus.API]uint32 {
	m := make(map[bus.API]uint32)
	for _, r := range bus.Routes {
		if _, ok := m[r.API]; !ok {
			m[r.API] = 1 << len(m)
		}
	}
	return m
}()

// trust is how much of what the prefix index promised an engine has kept lately: the
// cached tokens that it reports against those that were predicted for the same
// requests. An engine that reports none, or too little for a ratio, is believed.
func trust(signals map[string]float64) float64 {
	predicted, ok1 := signals["predicted_hit_rate"]
	cached, ok2 := signals["cached_hit_rate"]
	if !ok1 || !ok2 || predicted < leastPredicted {
		return 1
	}
	return min(max(cached/predicted, leastTrust), 1)
}

const (
	leastPredicted = 0.05
	leastTrust     = 0.1 // so that an agent can earn it back
)

// pool is the agents that serve one model, in the order of their ids.
type pool struct {
	views []*agentView
	list  []*policy.Serving // the same agents
	turn  uint64            // number of choices made
	first delays            // of streams to their first byte
}

func (p *pool) find(id string) (int, bool) {
	return slices.BinarySearchFunc(p.views, id, func(a *agentView, id string) int { return cmp.Compare(a.record.ID, id) })
}

// fleet is the set of agents, with the models that they serve.
type fleet struct {
	agents map[string]*agentView
	models map[string]*pool
	known  map[string]bool // models ever served
	slots  []bool          // numbers in use
	left   func(slot int)  // called when an agent goes or starts anew
}

// maxKnown bounds the set of models that are remembered.
const maxKnown = 10_000

func newFleet() *fleet {
	return &fleet{
		agents: make(map[string]*agentView), models: make(map[string]*pool), known: make(map[string]bool), left: func(int) {},
	}
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
		v = &agentView{pending: make(map[string]int64), slot: f.slot()}
		v.agent.Trust, v.agent.Signals = 1, policy.Unknown()
		f.agents[r.ID] = v
	}
	fresh = old.Epoch != merged.Epoch
	if fresh {
		clear(v.pending)
		v.breaker, v.tried = breaker{}, time.Time{}
		f.left(v.slot)
	}
	relist := fresh || v.partial && r.Full || !slices.EqualFunc(old.Models, merged.Models, func(a, b bus.Model) bool { return a.ID == b.ID })
	if relist {
		f.unlist(v)
	}
	v.record, v.at, v.suspect = merged, now, false
	if fresh || r.Full {
		v.learn(now)
	}
	if relist {
		f.list(v)
		v.partial = false
	}
	return v, fresh
}

// slot gives the lowest number that no agent has.
func (f *fleet) slot() int {
	i := slices.Index(f.slots, false)
	if i < 0 {
		i = len(f.slots)
		f.slots = append(f.slots, true)
	}
	f.slots[i] = true
	return i
}

// state applies the short form of what an agent said.
func (f *fleet) state(s bus.State, now time.Time) *agentView {
	v := f.agents[s.ID]
	if v == nil || v.record.Epoch != s.Epoch {
		return nil
	}
	v.at, v.suspect = now, false
	if s.Seq >= v.record.Seq {
		s.Full, s.Tokens = v.record.Full, v.record.Tokens // a note does not say them
		v.record.State = s
	}
	return v
}

func (f *fleet) list(v *agentView) {
	for _, m := range v.record.Models {
		key := listKey(&v.record, m.ID)
		p := f.models[key]
		if p == nil {
			p = &pool{}
			f.models[key] = p
		}
		i, listed := p.find(v.record.ID)
		if listed {
			continue // it names the model twice
		}
		p.views = slices.Insert(p.views, i, v)
		p.list = slices.Insert(p.list, i, &policy.Serving{Agent: &v.agent})
		if v.record.Provider == "" {
			f.remember(m.ID)
		}
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
	key := listKey(&v.record, model)
	p := f.models[key]
	if p == nil {
		return
	}
	if i := slices.Index(p.views, v); i >= 0 {
		p.views, p.list = slices.Delete(p.views, i, i+1), slices.Delete(p.list, i, i+1)
	}
	if len(p.views) == 0 {
		delete(f.models, key)
	}
}

func (f *fleet) remove(v *agentView) {
	f.unlist(v)
	delete(f.agents, v.record.ID)
	f.slots[v.slot] = false
	f.left(v.slot)
}

// serves reports whether an agent is listed for a model.
func (f *fleet) serves(v *agentView, model string) bool {
	p := f.models[listKey(&v.record, model)]
	return p != nil && slices.Contains(p.views, v)
}
