package schedule

import (
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// TestModelNamedTwice: an agent that names a model twice is listed once, and not at
// all once it refused the model.
func TestModelNamedTwice(t *testing.T) {
	f := newFleet()
	now := time.Unix(1_700_000_000, 0)
	v, _ := f.say(beat("a", "e", 1, "m", "m"), now)
	if n := len(f.models["m"].views); n != 1 {
		t.Errorf("the agent is listed %d times", n)
	}
	f.unserve(v, "m")
	if got, verdict := pick(f, "m", nil, now); got != nil {
		t.Errorf("invariant 4: %s although it refused", verdict)
	}
	f.remove(v)
	if len(f.models) != 0 || len(f.agents) != 0 {
		t.Errorf("a removed agent is left in %v", f.models)
	}
}

// TestPickVerdicts: what the view knows of an agent becomes the verdict (acceptance
// 16 and 20).
func TestPickVerdicts(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	cases := map[string]struct {
		change   func(*bus.Record)
		after    func(*agentView)
		later    time.Duration
		excluded bool
		want     policy.Verdict
	}{
		"usable":       {want: policy.Chosen},
		"nearly stale": {later: bus.StaleAfter - 1, want: policy.Chosen},
		"stale":        {later: bus.StaleAfter, want: policy.NoHealthy},
		"draining":     {change: func(r *bus.Record) { r.Status = bus.StatusDraining }, want: policy.NoHealthy},
		"starting":     {change: func(r *bus.Record) { r.Status = bus.StatusStarting }, want: policy.NoHealthy},
		"engine sick":  {change: func(r *bus.Record) { r.EngineHealth = "503" }, want: policy.NoHealthy},
		"suspect":      {after: func(v *agentView) { v.suspect = true }, want: policy.NoHealthy},
		"failed":       {excluded: true, want: policy.AllFailed},
		"full":         {change: func(r *bus.Record) { r.Active = 4 }, want: policy.NoCapacity},
		"full soon": {
			change: func(r *bus.Record) { r.Active = 3 }, after: func(v *agentView) { v.pending["x"] = 1 }, want: policy.NoCapacity,
		},
		"failed and full": {change: func(r *bus.Record) { r.Active = 4 }, excluded: true, want: policy.AllFailed},
		"another model":   {change: func(r *bus.Record) { r.Models = []bus.Model{{ID: "n"}} }, want: policy.NoModel},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			r := beat("a", "e", 1, "m")
			if c.change != nil {
				c.change(&r)
			}
			v, _ := f.say(r, now)
			if c.after != nil {
				c.after(v)
			}
			if _, got := pick(f, "m", map[string]bool{"a": c.excluded}, now.Add(c.later)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestNewEpochClearsPending: what was on its way to a process that is over is no
// load of the next one (invariant 1), and what the old one says late is ignored.
func TestNewEpochClearsPending(t *testing.T) {
	f := newFleet()
	now := time.Unix(1_700_000_000, 0)
	v, fresh := f.say(beat("a", "e1", 5, "m"), now)
	if !fresh {
		t.Error("a new agent is not fresh")
	}
	v.pending["x"] = 1
	if _, fresh := f.say(beat("a", "e1", 6, "m"), now); fresh || v.load() != 1 {
		t.Errorf("the same process: fresh %v, load %d", fresh, v.load())
	}
	next := beat("a", "e2", 1, "n")
	next.Started = now
	if got, fresh := f.say(next, now); got != v || !fresh || v.load() != 0 {
		t.Errorf("a new process: fresh %v, load %d", fresh, v.load())
	}
	if got, _ := f.say(beat("a", "e1", 7, "m"), now); got != nil || v.record.Epoch != "e2" {
		t.Error("a late beat of the process before was taken")
	}
	if got := f.state(bus.State{ID: "a", Epoch: "e1", Seq: 99, Active: 4}, now); got != nil || v.record.Active != 0 {
		t.Error("a late note of the process before was taken")
	}
	if f.models["m"] != nil || len(f.models["n"].views) != 1 {
		t.Errorf("lists %v", f.models)
	}
}
