package overview

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tokenbus/tokenbus/bus"
)

// The screen that status fits on, if little is wrong.
const (
	width      = 80
	mostAgents = 10
	mostModels = 5
)

// short cuts a text to n characters.
func short(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}

// severity orders agents for a list that is cut: those in trouble first.
func (a *Agent) severity() int {
	switch a.Condition {
	case "ready":
		return 3
	case "draining", "cordoned", "starting":
		return 2
	case "engine asleep":
		return 1
	}
	return 0
}

// WriteStatus prints the deployment on one screen.
func (o *Overview) WriteStatus(w io.Writer) error {
	ready, active, capacity, waiting := 0, 0, 0, 0
	for i := range o.Agents {
		if a := &o.Agents[i]; a.Condition != "unreachable" {
			active += a.Active
			if a.Ready() {
				ready++
				capacity += a.Capacity
			}
		}
	}
	for _, m := range o.Models {
		waiting += m.Waiting
	}
	js := "JetStream"
	if !o.Bus.JetStream {
		js = "no JetStream"
	}
	fmt.Fprintf(w, "%s  nats-server %s, %s, %.1f ms\n", short(o.Bus.URL, 40), o.Bus.Version, js, o.Bus.RTTMS)
	fmt.Fprintf(w, "gateways %d  schedulers %d  agents %d, %d ready  requests %d of %d, %d wait\n\n", o.Gateways, o.Schedulers, len(o.Agents), ready, active, capacity, waiting)

	agents := slices.Clone(o.Agents)
	slices.SortStableFunc(agents, func(a, b Agent) int { return cmp.Compare(a.severity(), b.severity()) })
	rest := max(len(agents)-mostAgents, 0)
	agents = agents[:len(agents)-rest]
	if err := writeAgents(w, agents); err != nil {
		return err
	}
	if rest > 0 {
		fmt.Fprintf(w, "and %d more: tokenbus agents\n", rest)
	}
	var shown []Model
	for _, m := range o.Models {
		if len(m.Agents) > 0 || m.Waiting > 0 {
			shown = append(shown, m)
		}
	}
	if len(shown) > 0 {
		fmt.Fprintln(w)
		slices.SortStableFunc(shown, func(a, b Model) int { return cmp.Compare(b.Waiting, a.Waiting) })
		rest = max(len(shown)-mostModels, 0)
		if err := writeModels(w, shown[:len(shown)-rest]); err != nil {
			return err
		}
		if rest > 0 {
			fmt.Fprintf(w, "and %d more: tokenbus models\n", rest)
		}
	}
	if len(o.Warnings) == 0 {
		_, err := fmt.Fprintln(w, "\nnothing is wrong")
		return err
	}
	fmt.Fprintln(w)
	for _, warn := range o.Warnings {
		fmt.Fprintln(w, short(fmt.Sprintf("%-7s %s: %s", warn.Severity, warn.Subject, warn.Text), width))
		wrap(w, "fix: "+warn.Fix, 8)
	}
	return nil
}

// wrap prints a text on lines of at most width, indented.
func wrap(w io.Writer, text string, indent int) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && indent+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintf(w, "%*s%s\n", indent, "", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	fmt.Fprintf(w, "%*s%s\n", indent, "", line)
}

// WriteAgents prints all agents.
func (o *Overview) WriteAgents(w io.Writer) error { return writeAgents(w, o.Agents) }

func writeAgents(w io.Writer, agents []Agent) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENT\tCONDITION\tACTIVE\tENGINE\tMODELS\tHEARD")
	for i := range agents {
		a := &agents[i]
		names := make([]string, 0, len(a.Models))
		for _, m := range a.Models {
			names = append(names, m.ID)
		}
		models := "-"
		if len(names) > 0 {
			models = short(names[0], 18)
			if len(names) > 1 {
				models += fmt.Sprintf(" +%d", len(names)-1)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%d/%d\t%s\t%s\t%s\n", short(a.ID, 14), a.Condition, a.Active, a.Capacity, short(strings.TrimSpace(a.Engine+" "+a.EngineVersion), 13), models, ago(a.SilentMS))
	}
	return t.Flush()
}

// Write prints all that is known of an agent.
func (a *Agent) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.TrimSpace(text) != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, text)
		}
	}
	row("agent", "%s", a.ID)
	row("condition", "%s, heard %s ago", a.Condition, ago(a.SilentMS))
	if o := a.Order; o != nil {
		row("ordered", "%s", strings.TrimSpace(by(o)+", "+o.At.Format(time.RFC3339)))
	}
	row("requests", "%d of %d slots", a.Active, a.Capacity)
	if a.FullCapacity > 0 {
		row("", "growing to %d", a.FullCapacity)
	}
	row("engine", "%s %s, %s", a.Engine, a.EngineVersion, cmp.Or(a.EngineReason, string(a.EngineHealth)))
	for _, m := range a.Models {
		text := m.ID
		if m.MaxModelLen > 0 {
			text += fmt.Sprintf(", %d tokens", m.MaxModelLen)
		}
		if m.Parent != "" {
			text += ", adapter of " + m.Parent
		}
		row("model", "%s", text)
	}
	row("place", "%s", strings.Join(slices.DeleteFunc([]string{a.Region, a.Organization, a.Machine, a.GPUModel, strings.Join(a.Tags, ",")}, func(s string) bool { return s == "" }), ", "))
	row("process", "%s, epoch %s, since %s", cmp.Or(a.Version, "?"), a.Epoch, a.Started.Format(time.RFC3339))
	if c := a.Counters; c != nil {
		row("lifetime", "%d succeeded, %d failed, %d cancelled, %d client errors, %d refused", c.Succeeded, c.Failed, c.Cancelled, c.ClientErrors, c.Refused)
		row("failed", "%s", byClass(c.Failures))
		row("refused", "%s", byClass(c.Refusals))
		row("tokens", "%d in, %d out, %d cached", c.PromptTokens, c.CompletionTokens, c.CachedTokens)
		row("failures", "the engine %d times, the connection to the bus %d times", c.EngineFailures, c.Disconnections)
	}
	if l := a.Latencies; l != nil {
		row("latency", "%s", latency(l))
	}
	if h := a.Hardware; h != nil {
		writeHardware(row, h)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Signals)) {
		row(name, "%.4g", a.Signals[name])
	}
	if len(a.Signals) > 0 {
		row("measured", "%s before it was heard", ago(a.SignalAgeMS))
	}
	return t.Flush()
}

// byClass lists what was counted by class, the most first.
func byClass(m map[string]uint64) string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	texts := make([]string, 0, len(keys))
	for _, k := range keys {
		if m[k] > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", m[k], k))
		}
	}
	return strings.Join(texts, ", ")
}

// latency prints the smoothed times that are known, in milliseconds.
func latency(l *bus.Latencies) string {
	var texts []string
	for _, x := range []struct {
		name string
		of   *bus.Latency
	}{{"first byte", l.TTFT}, {"token to token", l.ITL}, {"whole", l.E2E}} {
		if x.of != nil {
			texts = append(texts, fmt.Sprintf("%s %.4g ± %.2g ms", x.name, x.of.MS, x.of.VarMS))
		}
	}
	return strings.Join(texts, ", ")
}

// writeHardware prints a line for each GPU and one for the host. What was not read is
// not there.
func writeHardware(row func(name, format string, args ...any), h *bus.Hardware) {
	number := func(format string, v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf(format, *v)
	}
	memory := func(what string, used, total *uint64) string {
		const gib = 1 << 30
		switch {
		case total == nil:
			return ""
		case used == nil:
			return fmt.Sprintf("%.1f GiB", float64(*total)/gib)
		}
		return fmt.Sprintf(what, float64(*used)/gib, float64(*total)/gib)
	}
	join := func(fields ...string) string {
		return strings.Join(slices.DeleteFunc(fields, func(s string) bool { return s == "" }), ", ")
	}
	for _, g := range h.GPUs {
		row("gpu", "%d: %s", g.Index, join(g.Name, number("%.0f%% busy", g.UtilPercent), memory("%.1f of %.1f GiB", g.VRAMUsedBytes, g.VRAMTotalBytes),
			number("%.0f °C", g.TemperatureC), number("%.0f W", g.PowerWatts)))
	}
	row("gpus", "%s", h.GPUError)
	row("host", "%s", join(number("processors %.0f%% busy", h.CPUUsagePercent), memory("memory %.1f of %.1f GiB free", h.MemoryAvailableBytes, h.MemoryTotalBytes)))
}

// WriteModels prints all models.
func (o *Overview) WriteModels(w io.Writer) error { return writeModels(w, o.Models) }

func writeModels(w io.Writer, models []Model) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tREADY\tACTIVE\tWAITING\tALIASES")
	for _, m := range models {
		fmt.Fprintf(t, "%s\t%d of %d\t%d/%d\t%d\t%s\n", short(m.ID, 36), m.Ready, len(m.Agents), m.Active, m.Capacity, m.Waiting, cmp.Or(short(strings.Join(m.Aliases, ","), 20), "-"))
	}
	return t.Flush()
}

// WriteModel prints one model with the agents that serve it.
func (o *Overview) WriteModel(w io.Writer, m Model) error {
	if err := writeModels(w, []Model{m}); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENT\tCONDITION\tLOAD\tTOKENS\tENGINE\tREGION")
	for i := range o.Agents {
		a := &o.Agents[i]
		if !slices.Contains(m.Agents, a.ID) {
			continue
		}
		length := "-"
		for _, s := range a.Models {
			if s.ID == m.ID && s.MaxModelLen > 0 {
				length = fmt.Sprint(s.MaxModelLen)
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%d/%d\t%s\t%s\t%s\n", a.ID, a.Condition, a.Active, a.Capacity, length, strings.TrimSpace(a.Engine+" "+a.EngineVersion), a.Region)
	}
	return t.Flush()
}

// WriteJobs prints the requests in flight.
func WriteJobs(w io.Writer, f InFlight) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REQUEST\tAGENT\tMODEL\tAPI\tSTATE\tTOKENS\tELAPSED")
	for _, j := range f.Jobs {
		api := j.API
		if j.Stream {
			api += ", stream"
		}
		model := j.Model
		if j.Alias != "" {
			model = j.Alias + "=" + model
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", short(j.Request, 36), j.Agent, short(model, 30), api, j.State, j.Tokens, ago(j.ElapsedMS))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if f.Omitted > 0 {
		fmt.Fprintf(w, "and %d more\n", f.Omitted)
	}
	if len(f.Failed) > 0 {
		fmt.Fprintf(w, "no answer from %s\n", list(f.Failed))
	}
	return nil
}
