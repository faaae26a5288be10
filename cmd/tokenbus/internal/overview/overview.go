package overview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tokenbus/tokenbus/bus"
)

// Agent is one agent, with what can be said of it at a glance.
type Agent struct {
	bus.Record
	Condition string `json:"condition"` // ready, starting, engine down, engine asleep, engine unresponsive, cordoned, draining, unreachable
	SilentMS  int64  `json:"silent_ms"` // since it was last heard
	SkewMS    int64  `json:"skew_ms"`   // how far its clock is behind the observer's; network delay counts, too
}

// Ready reports whether the agent takes requests.
func (a *Agent) Ready() bool { return a.Condition == "ready" }

// Model is what all agents together offer of one model.
type Model struct {
	ID       string   `json:"id"`
	Parent   string   `json:"parent,omitempty"` // of an adapter
	Agents   []string `json:"agents"`           // that serve it, by id
	Ready    int      `json:"ready"`            // of them, take requests
	Active   int      `json:"active"`           // requests at them, of all their models
	Capacity int      `json:"capacity"`         // of those that are ready
	Waiting  int      `json:"waiting"`          // requests in the queues of the schedulers
	Aliases  []string `json:"aliases,omitempty"`
}

// Warning is something that is wrong, or that an operator may have forgotten.
type Warning struct {
	Code     string `json:"code"`
	Severity string `json:"severity"` // error: requests fail or may fail; warning: less than it should be; notice: as ordered
	Subject  string `json:"subject"`  // the agent, model or part
	Text     string `json:"text"`
	Fix      string `json:"fix"`
}

// Overview is a deployment at one moment.
type Overview struct {
	Time       time.Time      `json:"time"`
	Bus        bus.ServerInfo `json:"bus"`
	Gateways   int            `json:"gateways"`
	Schedulers int            `json:"schedulers"`
	Parts      []bus.Part     `json:"parts"`
	Agents     []Agent        `json:"agents"`
	Models     []Model        `json:"models"`
	Warnings   []Warning      `json:"warnings"`
}

// Facts are what an overview is made from.
type Facts struct {
	Now        time.Time
	Bus        bus.ServerInfo
	Parts      []bus.Part
	Seen       []bus.Sighting      // of the agents
	Known      []string            // models that were ever served
	Waiting    map[string]int      // requests by model
	Aliases    map[string][]string // models by alias
	Schedulers int
}

// Times of a look at a deployment.
const (
	partsPause = 150 * time.Millisecond // after one part, until another may answer
	beatsWait  = 300 * time.Millisecond // for the beats that were asked for
)

// Watch begins to watch the fleet and waits until every part has said what it is. Close
// the fleet after use.
func Watch(ctx context.Context, link *bus.Link) (*bus.Fleet, error) {
	fleet, err := bus.WatchFleet(link)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		fleet.Close()
		return nil, ctx.Err()
	case <-time.After(beatsWait):
	}
	return fleet, nil
}

// Look asks the bus. It takes a good half second.
func Look(ctx context.Context, link *bus.Link) (Overview, error) {
	fleet, err := Watch(ctx, link)
	if err != nil {
		return Overview{}, err
	}
	defer fleet.Close()
	return LookWith(ctx, link, fleet)
}

// LookWith is Look with a fleet that is watched already: what its agents last said.
func LookWith(ctx context.Context, link *bus.Link, fleet *bus.Fleet) (Overview, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var f Facts
	var records []bus.Record
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if f.Bus, err = link.ServerInfo(ctx); err != nil || !f.Bus.JetStream {
			return err
		}
		// What can't be read is missing, and traffic does not need it.
		records, _ = bus.Documents[bus.Record](ctx, link, bus.BucketAgents)
		counters, _ := bus.Documents[bus.Counters](ctx, link, bus.BucketCounters)
		for _, c := range counters {
			f.Known = append(f.Known, c.Models...)
		}
		return nil
	})
	g.Go(func() (err error) {
		wait, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		f.Parts, err = link.Parts(wait, partsPause)
		return err
	})
	if err := g.Wait(); err != nil {
		return Overview{}, err
	}
	f.Now, f.Seen = time.Now(), fleet.Sightings()
	f.Waiting, f.Aliases, f.Schedulers = fleet.Waiting(), fleet.Aliases(), fleet.Schedulers()
	heard := make(map[string]bool, len(f.Seen))
	for _, s := range f.Seen {
		heard[s.Record.ID] = true
	}
	for _, r := range records {
		if !heard[r.ID] { // it died lately
			f.Seen = append(f.Seen, bus.Sighting{Record: r, At: r.Seen})
		}
	}
	return New(f), nil
}

// New makes an overview.
func New(f Facts) Overview {
	o := Overview{Time: f.Now.UTC(), Bus: f.Bus, Parts: f.Parts, Schedulers: f.Schedulers, Agents: []Agent{}, Models: []Model{}}
	for _, p := range f.Parts {
		if p.Name == "tokenbus-gateway" {
			o.Gateways++
		}
	}
	for _, s := range f.Seen {
		silent := max(f.Now.Sub(s.At), 0)
		o.Agents = append(o.Agents, Agent{
			Record: s.Record, Condition: s.Record.Condition(silent), SilentMS: silent.Milliseconds(), SkewMS: s.At.Sub(s.Record.Seen).Milliseconds(),
		})
	}
	slices.SortFunc(o.Agents, func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) })
	o.Models = models(o.Agents, f)
	o.Warnings = warnings(&o)
	return o
}

func models(agents []Agent, f Facts) []Model {
	all := make(map[string]*Model)
	get := func(id string) *Model {
		m := all[id]
		if m == nil {
			m = &Model{ID: id, Agents: []string{}}
			all[id] = m
		}
		return m
	}
	for _, id := range f.Known {
		get(id)
	}
	for i := range agents {
		a := &agents[i]
		if a.Provider != "" {
			continue // its requests come by a policy, not by their model
		}
		for _, served := range a.Models {
			m := get(served.ID)
			m.Parent = served.Parent
			if slices.Contains(m.Agents, a.ID) {
				continue
			}
			m.Agents = append(m.Agents, a.ID)
			if a.Condition != "unreachable" {
				m.Active += a.Active
			}
			if a.Ready() {
				m.Ready++
				m.Capacity += a.Capacity
			}
		}
	}
	for id, n := range f.Waiting {
		get(id).Waiting = n
	}
	for alias, targets := range f.Aliases {
		for _, t := range targets {
			if m := all[t]; m != nil {
				m.Aliases = append(m.Aliases, alias)
			}
		}
	}
	list := make([]Model, 0, len(all))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		slices.Sort(all[id].Aliases)
		list = append(list, *all[id])
	}
	return list
}

// Agent finds an agent by its id.
func (o *Overview) Agent(id string) (Agent, error) {
	i := slices.IndexFunc(o.Agents, func(a Agent) bool { return a.ID == id })
	if i < 0 {
		names := make([]string, 0, len(o.Agents))
		for _, a := range o.Agents {
			names = append(names, a.ID)
		}
		return Agent{}, fmt.Errorf("%w: %q; there are %s", bus.ErrNoAgent, id, list(names))
	}
	return o.Agents[i], nil
}

// Model finds a model by its id.
func (o *Overview) Model(id string) (Model, error) {
	i := slices.IndexFunc(o.Models, func(m Model) bool { return m.ID == id })
	if i < 0 {
		names := make([]string, 0, len(o.Models))
		for _, m := range o.Models {
			names = append(names, m.ID)
		}
		return Model{}, fmt.Errorf("no agent has ever served a model %q; there are %s", id, list(names))
	}
	return o.Models[i], nil
}

// list names some things.
func list(names []string) string {
	const most = 8
	switch n := len(names); {
	case n == 0:
		return "none"
	case n > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(names, ", ")
}
