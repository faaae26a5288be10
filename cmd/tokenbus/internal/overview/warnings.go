package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// Severities, from the worst.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
	SeverityNotice  = "notice"
)

var rank = map[string]int{SeverityError: 0, SeverityWarning: 1, SeverityNotice: 2}

// Bounds beyond which something is a trouble.
const (
	mostSkew  = 2 * time.Second  // between the clocks of two machines
	leastGood = 0.9              // share of the requests of the last minute that succeed
	settled   = 15 * time.Second // since an agent's start, until it has looked at its engine
)

// The fixes of what an engine was started without.
const (
	FixNoMetrics = "start vLLM without --disable-log-stats, SGLang with --enable-metrics, llama-server with --metrics"
	FixNoCaching = "start vLLM with --enable-prefix-caching, SGLang without --disable-radix-cache"
)

// metered are the kinds of engine that show metrics.
var metered = map[string]bool{"vllm": true, "sglang": true, "llamacpp": true}

// warnings lists what is wrong, the worst first.
func warnings(o *Overview) []Warning {
	w := []Warning{}
	add := func(code, severity, subject, text, fix string) {
		w = append(w, Warning{code, severity, subject, text, fix})
	}
	parts(o, add)
	for i := range o.Agents {
		agent(&o.Agents[i], o.Time, add)
	}
	for i := range o.Models {
		model(o, &o.Models[i], add)
	}
	slices.SortStableFunc(w, func(a, b Warning) int { return cmp.Compare(rank[a.Severity], rank[b.Severity]) })
	return w
}

type adder func(code, severity, subject, text, fix string)

// parts looks at what is not an agent.
func parts(o *Overview, add adder) {
	if o.Schedulers == 0 {
		add("no_scheduler", SeverityError, "schedulers", "no scheduler is on the bus; requests get a 503", "start one: tokenbus scheduler, or a gateway without --no-local-scheduler")
	}
	if o.Gateways == 0 {
		add("no_gateway", SeverityNotice, "gateways", "no gateway is on the bus; requests come over NATS only", "start one if HTTP clients are to be served: tokenbus gateway")
	}
	if len(o.Agents) == 0 {
		add("no_agents", SeverityError, "agents", "no agent is on the bus", "start one beside each engine: tokenbus agent --nats URL --id NAME --engine-url URL")
	}
	if !o.Bus.JetStream {
		add("no_jetstream", SeverityWarning, "bus", "JetStream does not answer: traffic flows, but policies, orders and counters can't be written", "start the NATS server with JetStream, or look into its log; a cluster needs a majority of its servers")
	} else if !o.Bus.Events {
		add("no_events", SeverityNotice, "bus", "events are not kept", "they are from the next start of a gateway or scheduler on, if it may create the stream "+bus.EventStream)
	}
	if v := o.Bus.Version; older(v, 2, 11) { // interest can't be traced before
		add("old_server", SeverityWarning, "bus", "the NATS server is "+v, "take nats-server 2.11 or later")
	}
	versions := make(map[string]int)
	for _, p := range o.Parts {
		versions[p.Version]++
	}
	if len(versions) > 1 {
		add("versions_differ", SeverityWarning, "versions", "parts run different versions: "+strings.Join(slices.Sorted(maps.Keys(versions)), ", "), "finish the upgrade; tokenbus status --json names each part's")
	}
}

// older reports whether a version is before another; of one that can't be read nothing
// is said.
func older(version string, major, minor int) bool {
	var a, b int
	_, err := fmt.Sscanf(version, "%d.%d", &a, &b)
	return err == nil && (a < major || a == major && b < minor)
}

// agent looks at one agent. Of what explains each other only the cause is named.
func agent(a *Agent, now time.Time, add adder) {
	why := ""
	if a.EngineReason != "" {
		why = ": " + a.EngineReason
	}
	switch a.Condition {
	case "unreachable":
		add("agent_unreachable", SeverityError, a.ID, fmt.Sprintf("silent for %s", ago(a.SilentMS)), "look at machine "+cmp.Or(a.Machine, "?")+": does the agent run, and does it reach the bus? It comes back by itself")
		return
	case "engine down":
		add("engine_down", SeverityError, a.ID, "engine down"+why, "start the engine again; the agent finds it by itself")
	case "engine unresponsive":
		add("engine_unresponsive", SeverityError, a.ID, "engine unresponsive"+why, "look into the engine's log; restart it if it hangs")
	case "engine asleep":
		add("engine_asleep", SeverityWarning, a.ID, "engine asleep", "wake it: curl -X POST <engine>/wake_up")
	case "starting":
		add("starting", SeverityNotice, a.ID, "not ready yet"+why, "wait until the engine has loaded its model")
	case "draining", "cordoned":
		text := a.Condition
		if a.Order != nil && (a.Order.Drain || a.Order.Cordon) {
			text += by(a.Order)
			add("ordered_"+a.Condition, SeverityNotice, a.ID, text, "tokenbus resume "+a.ID)
		} else {
			add("stopping", SeverityNotice, a.ID, "the process is on its way out", "nothing; it ends when its work is done")
		}
	}
	if a.Order != nil && a.Order.Capacity > 0 {
		add("ordered_capacity", SeverityNotice, a.ID, fmt.Sprintf("capacity %d as ordered%s", a.Order.Capacity, by(a.Order)), "tokenbus capacity "+a.ID+" auto")
	}
	if d := time.Duration(a.SkewMS) * time.Millisecond; d.Abs() > mostSkew && a.SilentMS < bus.StaleAfter.Milliseconds() {
		add("clock", SeverityWarning, a.ID, fmt.Sprintf("its clock and this one differ by %s", ago(d.Abs().Milliseconds())), "run NTP on both machines")
	}
	if h := a.Hardware; h != nil && h.GPUError != "" {
		add("gpus_unread", SeverityWarning, a.ID, "its GPUs can't be read: "+h.GPUError, "run nvidia-smi or rocm-smi as the agent's user; --gpus none turns it off")
	}
	for _, x := range a.missing() {
		if a.Condition == "ready" {
			add("adapter_missing", SeverityWarning, a.ID, "the adapter "+x.Name+" is not loaded", "look into the agent's log; tokenbus adapter unload "+x.Name+" --agent "+a.ID+" gives it up")
		}
	}
	if ready := a.Condition == "ready"; ready && a.PrefixCaching != nil && !*a.PrefixCaching {
		add("no_prefix_caching", SeverityNotice, a.ID, "the engine's prefix caching is off", FixNoCaching)
	} else if _, ok := a.Signals["running_requests"]; ready && !ok && metered[a.Engine] && now.Sub(a.Started) > settled {
		add("not_measured", SeverityNotice, a.ID, "the engine shows no metrics; its load is not seen", FixNoMetrics)
	}
	if rate, ok := a.Signals["success_rate"]; ok && rate < leastGood {
		add("failing", SeverityWarning, a.ID, fmt.Sprintf("%.0f%% of the requests of the last minute failed", 100*(1-rate)), "look into the engine's log; tokenbus cordon "+a.ID+" keeps requests away")
	}
}

// by tells who ordered something, and why.
func by(o *bus.Order) string {
	s := ""
	if o.By != "" {
		s += " by " + o.By
	}
	if o.Reason != "" {
		s += " (" + o.Reason + ")"
	}
	return s
}

// model looks at one model over all its agents.
func model(o *Overview, m *Model, add adder) {
	switch {
	case m.Ready == 0 && len(m.Agents) == 0 && m.Waiting > 0:
		add("model_gone", SeverityError, m.ID, fmt.Sprintf("%d requests wait for a model that no agent serves", m.Waiting), "start an engine that serves it")
	case m.Ready == 0 && len(m.Agents) == 0:
		add("model_gone", SeverityNotice, m.ID, "was served before, and no agent serves it now", "start an engine that serves it, if it is still wanted")
	case m.Ready == 0:
		add("model_down", SeverityError, m.ID, "no agent that serves it is ready; requests get a 503", "see to its agents: "+list(m.Agents))
	case m.Waiting > 0:
		add("model_full", SeverityWarning, m.ID, fmt.Sprintf("%d requests wait; %d of %d slots are taken", m.Waiting, m.Active, m.Capacity), "add an agent, or raise the capacity: tokenbus capacity ID N")
	}
	differ(o, m, "context_differs", "context lengths", add, func(a *Agent) string {
		for _, s := range a.Models {
			if s.ID == m.ID && s.MaxModelLen > 0 {
				return fmt.Sprint(s.MaxModelLen)
			}
		}
		return ""
	})
	differ(o, m, "engines_differ", "engine versions", add, func(a *Agent) string { return a.EngineVersion })
}

// differ warns if the replicas of a model are not the same in something.
func differ(o *Overview, m *Model, code, what string, add adder, of func(*Agent) string) {
	values := make(map[string]bool)
	for i := range o.Agents {
		if a := &o.Agents[i]; slices.Contains(m.Agents, a.ID) && a.Condition != "unreachable" {
			if v := of(a); v != "" {
				values[v] = true
			}
		}
	}
	if len(values) > 1 {
		add(code, SeverityWarning, m.ID, "its replicas have different "+what+": "+strings.Join(slices.Sorted(maps.Keys(values)), ", "), "start them with the same options; tokenbus models "+m.ID+" --json names each")
	}
}

// ago is a time for people.
func ago(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Minute).String()
}
