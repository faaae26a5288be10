package overview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"

	"github.com/tokenbus/tokenbus/bus"
)

// AdapterOrder is what an operator wants of an adapter: to load it at the agents that
// are named or that serve a model, or to unload it at those that are named or have it.
type AdapterOrder struct {
	Adapter string   `json:"adapter"`
	Path    string   `json:"path,omitempty"`
	Model   string   `json:"model,omitempty"`
	Agents  []string `json:"agents,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	By      string   `json:"by,omitempty"`
}

// AdapterResults are what the agents made of it.
type AdapterResults struct {
	Results []bus.AdapterAnswer `json:"results"`
}

// Failed reports whether an agent did not do it.
func (r AdapterResults) Failed() bool {
	return slices.ContainsFunc(r.Results, func(a bus.AdapterAnswer) bool { return !a.OK })
}

// atOnce bounds the agents that work on an adapter at one time.
const atOnce = 32

// Load makes agents load an adapter, all at one time, and gives what came of it at each.
func (a AdapterOrder) Load(ctx context.Context, link *bus.Link, o Overview) (AdapterResults, error) {
	if err := (bus.Adapter{Name: a.Adapter, Path: a.Path}).Validate(); err != nil {
		return AdapterResults{}, err
	}
	if len(a.Agents) == 0 && a.Model == "" {
		return AdapterResults{}, missing("model", "name the model that the adapter belongs to, or agents")
	}
	return a.each(ctx, link, o, "load", func(x *Agent) bool {
		return slices.ContainsFunc(x.Models, func(m bus.Model) bool { return m.ID == a.Model && m.Parent == "" })
	}, "no agent serves the model "+a.Model)
}

// Unload is Load the other way.
func (a AdapterOrder) Unload(ctx context.Context, link *bus.Link, o Overview) (AdapterResults, error) {
	if err := bus.CheckModel(a.Adapter); err != nil {
		return AdapterResults{}, missing("adapter", err.Error())
	}
	a.Path = ""
	return a.each(ctx, link, o, "unload", func(x *Agent) bool {
		return slices.ContainsFunc(x.Models, func(m bus.Model) bool { return m.ID == a.Adapter && m.Parent != "" }) ||
			x.Order != nil && slices.ContainsFunc(x.Order.Adapters, func(y bus.Adapter) bool { return y.Name == a.Adapter })
	}, "no agent has the adapter "+a.Adapter)
}

func missing(param, text string) error {
	e := bus.Errorf(bus.ReasonBadRequest, "%s: %s", param, text)
	e.Param = param
	return e
}

func (a AdapterOrder) each(ctx context.Context, link *bus.Link, o Overview, verb string, meant func(*Agent) bool, none string) (AdapterResults, error) {
	ids := slices.Clone(a.Agents)
	if len(ids) == 0 {
		for i := range o.Agents {
			if x := &o.Agents[i]; x.Provider == "" && meant(x) {
				ids = append(ids, x.ID)
			}
		}
	}
	if len(ids) == 0 {
		return AdapterResults{}, fmt.Errorf("%w: %s", bus.ErrNoAgent, none)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	arg := map[string]string{"adapter": a.Adapter, "reason": a.Reason, "by": a.By}
	if a.Path != "" {
		arg["path"] = a.Path
	}
	all := make([]bus.AdapterAnswer, len(ids))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, id := range ids {
		g.Go(func() error {
			if err := link.Command(ctx, id, verb, arg, &all[i]); err != nil {
				all[i].OK, all[i].Error = false, plain(err)
			}
			all[i].Agent, all[i].Adapter = id, a.Adapter
			return nil
		})
	}
	_ = g.Wait() // each has its result
	return AdapterResults{all}, nil
}

// plain is an error for people.
func plain(err error) string {
	var wrong *bus.Error
	switch {
	case errors.Is(err, bus.ErrNoAgent):
		return "it is not on the bus"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time; it may still do it"
	case errors.As(err, &wrong):
		return wrong.Message
	}
	return err.Error()
}

// Write prints the results.
func (r AdapterResults) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENT\tADAPTER\tRESULT\tTIME")
	for _, a := range r.Results {
		said := "ok"
		if !a.OK {
			said = "failed: " + a.Error
		}
		if a.Warning != "" {
			said += " (" + a.Warning + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", a.Agent, a.Adapter, said, ago(a.MS))
	}
	return t.Flush()
}

// Adapter is a LoRA adapter over all agents.
type Adapter struct {
	ID      string   `json:"id"`
	Parent  string   `json:"parent,omitempty"`
	Path    string   `json:"path,omitempty"`    // as it was ordered
	Agents  []string `json:"agents"`            // that have it
	Missing []string `json:"missing,omitempty"` // that shall have it and do not
}

// Adapters lists the adapters that agents have or shall have.
func (o *Overview) Adapters() []Adapter {
	all := []Adapter{}
	get := func(id string) *Adapter {
		i := slices.IndexFunc(all, func(a Adapter) bool { return a.ID == id })
		if i < 0 {
			all = append(all, Adapter{ID: id, Agents: []string{}})
			i = len(all) - 1
		}
		return &all[i]
	}
	for i := range o.Agents {
		x := &o.Agents[i]
		for _, m := range x.Models {
			if m.Parent != "" {
				a := get(m.ID)
				a.Parent, a.Agents = m.Parent, append(a.Agents, x.ID)
			}
		}
		for _, y := range x.missing() {
			a := get(y.Name)
			a.Missing = append(a.Missing, x.ID)
		}
		if x.Order != nil {
			for _, y := range x.Order.Adapters {
				get(y.Name).Path = y.Path
			}
		}
	}
	slices.SortFunc(all, func(a, b Adapter) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// missing are the adapters that an agent shall have and does not.
func (a *Agent) missing() (list []bus.Adapter) {
	if a.Order == nil {
		return nil
	}
	for _, x := range a.Order.Adapters {
		if !slices.ContainsFunc(a.Models, func(m bus.Model) bool { return m.ID == x.Name }) {
			list = append(list, x)
		}
	}
	return list
}

// WriteAdapters prints all adapters.
func (o *Overview) WriteAdapters(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ADAPTER\tMODEL\tAGENTS\tMISSING AT\tPATH")
	for _, a := range o.Adapters() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", a.ID, orDash(a.Parent), list(a.Agents), list(a.Missing), orDash(a.Path))
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
