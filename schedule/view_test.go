package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

func beat(id, epoch string, seq uint64, models ...string) bus.Record {
	r := bus.Record{State: bus.State{ID: id, Epoch: epoch, Seq: seq, Status: bus.StatusReady, Capacity: 4, Full: true}, EngineHealth: "ok"}
	for _, m := range models {
		r.Models = append(r.Models, bus.Model{ID: m})
	}
	return r
}

// pick chooses with the default policy.
func pick(f *fleet, model string, excluded map[string]bool, now time.Time) (*agentView, policy.Verdict) {
	p := f.models[model]
	if p == nil {
		return nil, policy.NoModel
	}
	for _, v := range p.views {
		v.look(now)
	}
	var decision policy.Pool
	i, verdict := decision.Decide(&policy.Default().For(model).Steps[0], &policy.Request{Failed: excluded}, p.list)
	if i < 0 {
		return nil, verdict
	}
	return p.views[i], verdict
}

// checkFleet fails unless the two sides of a fleet agree. lacks are the agents and
// models that were refused: true while no full beat has come since, false after one
// that brought no other news.
func checkFleet(t interface {
	Helper()
	Fatalf(string, ...any)
}, f *fleet, lacks map[string]bool,
) {
	t.Helper()
	for m, p := range f.models {
		l := p.views
		if len(l) == 0 || len(l) != len(p.list) {
			t.Fatalf("model %s has an empty list", m)
		}
		for i, v := range l {
			id := v.record.ID
			if p.list[i].Agent != &v.agent || v.agent.ID != id {
				t.Fatalf("model %s: the agent of %s is %s", m, id, p.list[i].ID)
			}
			if i > 0 && l[i-1].record.ID >= id {
				t.Fatalf("acceptance 15: model %s lists %s before %s", m, l[i-1].record.ID, id)
			}
			if f.agents[id] != v {
				t.Fatalf("model %s lists %s, which is not in the fleet", m, id)
			}
			if !slices.ContainsFunc(v.record.Models, func(x bus.Model) bool { return x.ID == m }) {
				t.Fatalf("model %s lists %s, which does not serve it", m, id)
			}
		}
		if !f.known[m] {
			t.Fatalf("model %s is served and not known", m)
		}
	}
	for id, v := range f.agents {
		if v.record.ID != id {
			t.Fatalf("agent %s is filed under %s", v.record.ID, id)
		}
		for _, m := range v.record.Models {
			listed := f.serves(v, m.ID)
			refused, said := lacks[id+" "+m.ID]
			if listed == refused && (refused || !said) {
				t.Fatalf("agent %s and model %s: listed %v, refused %v", id, m.ID, listed, refused)
			}
		}
	}
}

// TestFleetModel runs any order of beats, short beats, notes, refusals and
// silences: the lists stay sorted and agree with what the agents said last
// (invariant 1).
func TestFleetModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet()
		now := time.Unix(1_700_000_000, 0)
		lacks := make(map[string]bool)
		agent := func(rt *rapid.T) string { return fmt.Sprintf("agent-%d", rapid.IntRange(0, 4).Draw(rt, "agent")) }
		known := func(rt *rapid.T) *agentView {
			v := f.agents[agent(rt)]
			if v == nil {
				rt.Skip("not known")
			}
			return v
		}
		same := func(a, b []bus.Model) bool {
			return slices.EqualFunc(a, b, func(x, y bus.Model) bool { return x.ID == y.ID })
		}
		rt.Repeat(map[string]func(*rapid.T){
			"full beat": func(rt *rapid.T) {
				id := agent(rt)
				epoch := rapid.SampledFrom([]string{"e1", "e2"}).Draw(rt, "epoch")
				models := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"m", "n", "o"}), 0, 3, rapid.ID).Draw(rt, "models")
				r := beat(id, epoch, uint64(rapid.IntRange(0, 9).Draw(rt, "seq")), models...)
				old, pending := bus.Record{}, 0
				if v := f.agents[id]; v != nil {
					old, pending = v.record, len(v.pending)
				}
				v, fresh := f.say(r, now)
				if v == nil {
					return
				}
				if v.record.Seq != r.Seq || v.at != now || v.suspect {
					rt.Fatalf("%+v was not taken: %+v", r, v)
				}
				if fresh != (old.Epoch != epoch) || fresh && len(v.pending) != 0 || !fresh && len(v.pending) != pending {
					rt.Fatalf("fresh %v, %d pending of %d", fresh, len(v.pending), pending)
				}
				for _, m := range []string{"m", "n", "o"} {
					key := id + " " + m
					if fresh || !same(old.Models, r.Models) {
						delete(lacks, key)
					} else if _, refused := lacks[key]; refused {
						lacks[key] = false // TestUnserveUntilBeat is about this
					}
				}
			},
			"short beat": func(rt *rapid.T) {
				v := known(rt)
				s := v.record.State
				s.Full, s.Active, s.Seq = false, rapid.IntRange(0, 4).Draw(rt, "active"), uint64(rapid.IntRange(0, 12).Draw(rt, "seq"))
				before := v.record
				if got, _ := f.say(bus.Record{State: s}, now); got != nil && (got.record.Active != s.Active || !same(got.record.Models, before.Models)) {
					rt.Fatalf("%+v became %+v", before, got.record)
				}
			},
			"note": func(rt *rapid.T) {
				v := known(rt)
				v.suspect = true
				s := bus.State{ID: v.record.ID, Epoch: "e1", Seq: uint64(rapid.IntRange(0, 12).Draw(rt, "seq")), Status: bus.StatusReady, Active: 3, Capacity: 4}
				before := v.record
				got := f.state(s, now)
				switch {
				case before.Epoch != "e1":
					if got != nil || v.record.State != before.State {
						rt.Fatal("a note of another epoch was taken")
					}
				case s.Seq >= before.Seq && v.record.Active != 3, s.Seq < before.Seq && v.record.State != before.State, got.suspect, v.record.Full != before.Full:
					rt.Fatalf("%+v and then %+v became %+v", before.State, s, v.record.State)
				}
			},
			"dispatch": func(rt *rapid.T) { known(rt).pending[fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "attempt"))] = 1 },
			"unserve": func(rt *rapid.T) {
				v := known(rt)
				m := rapid.SampledFrom([]string{"m", "n", "o"}).Draw(rt, "model")
				f.unserve(v, m)
				lacks[v.record.ID+" "+m] = true
			},
			"gone": func(rt *rapid.T) {
				v := known(rt)
				s := v.record.State
				s.Status, s.Full, s.Seq = bus.StatusGone, false, s.Seq+1
				f.say(bus.Record{State: s}, now)
				if f.agents[s.ID] != nil {
					rt.Fatalf("%s is still there", s.ID)
				}
			},
			"remove": func(rt *rapid.T) { f.remove(known(rt)) },
			"time": func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 8).Draw(rt, "seconds")) * time.Second)
			},
			"": func(rt *rapid.T) {
				for key := range lacks {
					if id, _, _ := strings.Cut(key, " "); f.agents[id] == nil {
						delete(lacks, key)
					}
				}
				checkFleet(rt, f, lacks)
				checkPick(rt, f, now)
			},
		})
	})
}

// checkPick fails unless the fleet picks what the policy says of its view.
func checkPick(rt *rapid.T, f *fleet, now time.Time) {
	for _, m := range []string{"m", "n", "o"} {
		excluded := map[string]bool{"agent-0": true}
		v, verdict := pick(f, m, excluded, now)
		if (v != nil) != (verdict == policy.Chosen) {
			rt.Fatalf("%s: %v, %s", m, v, verdict)
		}
		if v == nil {
			continue
		}
		if !v.room() || now.Sub(v.at) >= bus.StaleAfter || excluded[v.record.ID] || v.load() >= v.record.Capacity {
			rt.Fatalf("%s: chose %+v", m, v)
		}
		for _, o := range f.models[m].views {
			usable := o.room() && now.Sub(o.at) < bus.StaleAfter && !excluded[o.record.ID]
			if usable && o.load()*v.record.Capacity < v.load()*o.record.Capacity {
				rt.Fatalf("acceptance 14: %s: chose %d of %d, there was %d of %d", m, v.load(), v.record.Capacity, o.load(), o.record.Capacity)
			}
		}
	}
}

// TestUnserveUntilBeat: an agent that refused a model is not chosen for it until
// its next full beat says that it serves it.
func TestUnserveUntilBeat(t *testing.T) {
	f := newFleet()
	now := time.Unix(1_700_000_000, 0)
	v, _ := f.say(beat("a", "e", 1, "m"), now)
	f.unserve(v, "m")
	if got, verdict := pick(f, "m", nil, now); got != nil || verdict != policy.NoModel {
		t.Errorf("chosen although it refused: %v, %s", got, verdict)
	}
	f.say(beat("a", "e", 2, "m"), now)
	if got, verdict := pick(f, "m", nil, now); got != v {
		t.Errorf("a full beat says that it serves the model, and it is not chosen: %s", verdict)
	}
}

// TestPendingCounts: a dispatch that was not heard back about is a load (invariant
// 1), so no scheduler alone sends more than there is room for.
func TestPendingCounts(t *testing.T) {
	f := newFleet()
	now := time.Unix(1_700_000_000, 0)
	f.say(beat("a", "e", 1, "m"), now)
	for i := range 5 {
		v, verdict := pick(f, "m", nil, now)
		if (v != nil) != (i < 4) {
			t.Fatalf("after %d dispatches to an agent of 4 slots: %s", i, verdict)
		}
		if v != nil {
			v.pending[fmt.Sprint(i)] = 1
		}
	}
}

// TestKnownIsBounded: the set of models ever served has a cap (invariant 10).
func TestKnownIsBounded(t *testing.T) {
	f := newFleet()
	for i := range maxKnown + 100 {
		f.remember(fmt.Sprint(i))
	}
	if len(f.known) != maxKnown {
		t.Errorf("%d models are remembered, the cap is %d", len(f.known), maxKnown)
	}
}
