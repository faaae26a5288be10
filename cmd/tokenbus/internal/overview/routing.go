package overview

import (
	"cmp"
	"slices"
)

// Health is the deployment in few words.
type Health struct {
	Status     string `json:"status"` // healthy; degraded: something is wrong; down: no request can be served
	Gateways   int    `json:"gateways"`
	Schedulers int    `json:"schedulers"`
	Agents     int    `json:"agents"`
	Ready      int    `json:"ready"` // of the agents
	Waiting    int    `json:"waiting"`
	Errors     int    `json:"errors"` // warnings of that severity
	Warnings   int    `json:"warnings"`
}

// Health sums the overview up.
func (o *Overview) Health() Health {
	h := Health{Status: "healthy", Gateways: o.Gateways, Schedulers: o.Schedulers, Agents: len(o.Agents)}
	for i := range o.Agents {
		if o.Agents[i].Ready() {
			h.Ready++
		}
	}
	for _, m := range o.Models {
		h.Waiting += m.Waiting
	}
	for _, w := range o.Warnings {
		switch w.Severity {
		case SeverityError:
			h.Errors++
		case SeverityWarning:
			h.Warnings++
		}
	}
	switch {
	case h.Ready == 0 || h.Schedulers == 0:
		h.Status = "down"
	case h.Errors+h.Warnings > 0:
		h.Status = "degraded"
	}
	return h
}

// RoutingTable is where requests can go, in the order in which the default policy takes
// the agents: those that take requests by their load, and the others behind them.
type RoutingTable struct {
	Models []RoutedModel `json:"models"`
}

// RoutedModel is one model of a routing table.
type RoutedModel struct {
	ID      string        `json:"id"`
	Waiting int           `json:"waiting"`
	Agents  []RoutedAgent `json:"agents"`
}

// RoutedAgent is one agent that serves a model.
type RoutedAgent struct {
	ID        string             `json:"id"`
	Condition string             `json:"condition"`
	Active    int                `json:"active"`
	Capacity  int                `json:"capacity"`
	Load      float64            `json:"load"` // active / capacity
	Region    string             `json:"region,omitempty"`
	Signals   map[string]float64 `json:"signals,omitempty"`
	SilentMS  int64              `json:"silent_ms"`
}

// RoutingTable gives the routing table.
func (o *Overview) RoutingTable() RoutingTable {
	t := RoutingTable{Models: []RoutedModel{}}
	for _, m := range o.Models {
		r := RoutedModel{ID: m.ID, Waiting: m.Waiting, Agents: []RoutedAgent{}}
		ready := make(map[string]bool)
		for i := range o.Agents {
			a := &o.Agents[i]
			if !slices.Contains(m.Agents, a.ID) {
				continue
			}
			ready[a.ID] = a.Ready()
			r.Agents = append(r.Agents, RoutedAgent{
				ID: a.ID, Condition: a.Condition, Active: a.Active, Capacity: a.Capacity, Load: float64(a.Active) / float64(max(a.Capacity, 1)),
				Region: a.Region, Signals: a.Signals, SilentMS: a.SilentMS,
			})
		}
		slices.SortStableFunc(r.Agents, func(a, b RoutedAgent) int {
			if ready[a.ID] != ready[b.ID] {
				return map[bool]int{true: -1, false: 1}[ready[a.ID]]
			}
			return cmp.Or(cmp.Compare(a.Load, b.Load), cmp.Compare(a.ID, b.ID))
		})
		t.Models = append(t.Models, r)
	}
	return t
}
