package schedule

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tokenbus/tokenbus/bus"
)

// Metrics gives what Prometheus is shown of the scheduler.
func (s *Scheduler) Metrics() prometheus.Collector { return &collector{s} }

type collector struct{ s *Scheduler }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// plain are the numbers without a label.
var plain = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	get  func(s *Scheduler) float64
}{
	{desc("tokenbus_scheduler_agents", "Agents known."), prometheus.GaugeValue, func(s *Scheduler) float64 { return float64(len(s.fleet.agents)) }},
	{desc("tokenbus_scheduler_peers", "Other schedulers known."), prometheus.GaugeValue, func(s *Scheduler) float64 { return float64(len(s.peers)) }},
	{desc("tokenbus_scheduler_waiting_requests", "Requests that wait for a free slot."), prometheus.GaugeValue, func(s *Scheduler) float64 { return float64(s.waiting.Len()) }},
	{desc("tokenbus_scheduler_held_requests", "Requests without a first byte yet."), prometheus.GaugeValue, func(s *Scheduler) float64 { return float64(len(s.tickets)) }},
	{desc("tokenbus_scheduler_held_bytes", "Bytes of their bodies."), prometheus.GaugeValue, func(s *Scheduler) float64 { return float64(s.bytes) }},
	{desc("tokenbus_scheduler_policy_version", "Version of the policies in force: the highest revision of those on the bus, or a count of the changes of --policy; 0 is none."), prometheus.GaugeValue, func(s *Scheduler) float64 { return float64(s.counters.PolicyVersion) }},
	{desc("tokenbus_scheduler_policies_rejected_total", "Sets of policies on the bus that were not valid, so that those before stayed in force."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.PolicyRejected) }},
	{desc("tokenbus_scheduler_requests_total", "Requests taken."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Requests) }},
	{desc("tokenbus_scheduler_dispatches_total", "Dispatches to agents: the attempts at requests, and those that were refused."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Dispatches) }},
	{desc("tokenbus_scheduler_accept_timeouts_total", "Dispatches that no agent answered."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Timeouts) }},
	{desc("tokenbus_scheduler_adapter_loads_total", "Adapters that agents loaded because requests asked for them."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Loads) }},
	{desc("tokenbus_scheduler_adapter_loads_failed_total", "The same, in vain."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.LoadsFailed) }},
	{desc("tokenbus_scheduler_aliased_total", "Requests that named an alias."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Aliased) }},
	{desc("tokenbus_scheduler_shadows_total", "Copies of requests that were sent to another model."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Shadows) }},
	{desc("tokenbus_scheduler_shadows_left_out_total", "Copies that were not sent, for lack of room or because of their form."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Unshadowed) }},
	{desc("tokenbus_scheduler_hedges_total", "Second attempts beside one whose first byte took long."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Hedges) }},
	{desc("tokenbus_scheduler_hedges_won_total", "Second attempts that gave the answer."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.HedgesWon) }},
	{desc("tokenbus_scheduler_unbudgeted_retries_total", "Retries that the retry budget did not allow."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Unbudgeted) }},
	{desc("tokenbus_scheduler_queued_total", "Requests that had to wait."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Queued) }},
	{desc("tokenbus_scheduler_handovers_total", "Requests given to the scheduler at which those for the model wait."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.HandedOver) }},
	{desc("tokenbus_scheduler_provided_total", "Requests that went to an outside provider."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Provided) }},
	{desc("tokenbus_scheduler_wakes_total", "Events that said that requests wait for a model that no agent serves."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.counters.Wakes) }},
	{desc("tokenbus_scheduler_prefix_bytes_total", "Bytes of the prompts whose prefix was looked at."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.meters.prompt) }},
	{desc("tokenbus_scheduler_prefix_predicted_bytes_total", "Of these, bytes that were expected in the cache of the agent's engine."), prometheus.CounterValue, func(s *Scheduler) float64 { return float64(s.meters.predicted) }},
}

var (
	descDecisions = desc("tokenbus_scheduler_decisions_total", "Dispatches by policy/step/strategy.", "decision")
	descRefusals  = desc("tokenbus_scheduler_refusals_total", "Dispatches that agents refused, by what they said.", "reason")
	descRetries   = desc("tokenbus_scheduler_retries_total", "Tries after a failure, by its class.", "class")
	descRejected  = desc("tokenbus_scheduler_rejected_requests_total", "Requests that ended with an error, by its reason.", "reason")

	descWait     = desc("tokenbus_scheduler_queue_wait_seconds", "Wait for a free slot, of each request that was dispatched.", "model")
	descQueue    = desc("tokenbus_scheduler_queue_requests", "Requests that wait for a free slot here.", "model")
	descDemand   = desc("tokenbus_scheduler_unserved_requests", "Requests that wait for a model that no agent can serve now: the demand for one.", "model")
	descUnserved = desc("tokenbus_scheduler_unserved_requests_total", "Requests that were refused because no agent could serve their model.", "model")
	descServing  = desc("tokenbus_scheduler_model_agents", "Agents that can be chosen for a model now.", "model")
	descActive   = desc("tokenbus_scheduler_model_active_requests", "Slots taken at the agents that serve a model, whatever model took them.", "model")
	descCapacity = desc("tokenbus_scheduler_model_capacity_requests", "Slots of the agents that serve a model.", "model")

	descAge     = desc("tokenbus_scheduler_view_age_seconds", "Time since an agent was last heard.", "agent")
	descBreaker = desc("tokenbus_scheduler_breaker_open", "Whether the circuit breaker keeps requests from an agent.", "agent")
	descUsable  = desc("tokenbus_scheduler_agent_usable", "Whether an agent can be chosen, for all that is known of it but its load.", "agent")
)

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, p := range plain {
		ch <- p.desc
	}
	for _, d := range []*prometheus.Desc{
		descDecisions, descRefusals, descRetries, descRejected, descWait, descQueue, descDemand, descUnserved, descServing, descActive,
		descCapacity, descAge, descBreaker, descUsable,
	} {
		ch <- d
	}
}

// sink takes numbers until the lock is free again: nothing may block while it is held.
type sink struct{ list []prometheus.Metric }

func (s *sink) add(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "�")
	}
	s.list = append(s.list, prometheus.MustNewConstMetric(d, kind, v, labels...))
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	var out sink
	c.s.collect(&out, time.Now())
	for _, m := range out.list {
		ch <- m
	}
}

func (s *Scheduler) collect(out *sink, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range plain {
		out.add(p.desc, p.kind, p.get(s))
	}
	for label, n := range s.meters.decisions {
		out.add(descDecisions, prometheus.CounterValue, float64(n), label)
	}
	for _, note := range []bus.Note{bus.NoteBusy, bus.NoteDraining, bus.NoteUnknownModel, bus.NoteNotReady} {
		out.add(descRefusals, prometheus.CounterValue, float64(s.meters.refusals[note]), string(note))
	}
	for _, class := range []bus.Class{bus.ClassRefused, bus.ClassBusy, bus.ClassEngineError, bus.ClassLost} {
		out.add(descRetries, prometheus.CounterValue, float64(s.meters.retries[class]), string(class))
	}
	rejected := maps.Clone(s.counters.Rejected)
	for _, r := range bus.Reasons() {
		out.add(descRejected, prometheus.CounterValue, float64(rejected[r]), string(r))
	}
	s.collectModels(out, now)
	s.collectAgents(out, now)
}

// load is what the scheduler knows of a model now.
type load struct{ waiting, unserved, agents, active, capacity int }

func (s *Scheduler) collectModels(out *sink, now time.Time) {
	loads := make(map[string]*load)
	at := func(name string) *load {
		if loads[name] == nil && len(loads) >= maxModels {
			name = other
		}
		if loads[name] == nil {
			loads[name] = &load{}
		}
		return loads[name]
	}
	for name, p := range s.fleet.models {
		if strings.HasPrefix(name, "\x00") {
			continue // of an outside provider
		}
		l := at(name)
		for _, v := range p.views {
			l.active += v.record.Active
			l.capacity += v.record.Capacity
			if v.look(now).Healthy {
				l.agents++
			}
		}
	}
	for name, n := range s.waiting.Models() {
		l := at(name)
		l.waiting += n
		if l.agents == 0 {
			l.unserved += n
		}
	}
	for name, l := range loads {
		out.add(descQueue, prometheus.GaugeValue, float64(l.waiting), name)
		out.add(descDemand, prometheus.GaugeValue, float64(l.unserved), name)
		out.add(descServing, prometheus.GaugeValue, float64(l.agents), name)
		out.add(descActive, prometheus.GaugeValue, float64(l.active), name)
		out.add(descCapacity, prometheus.GaugeValue, float64(l.capacity), name)
	}
	s.meters.purge(func(name string) bool { return loads[name] != nil }, now)
	for name, m := range s.meters.models {
		out.add(descUnserved, prometheus.CounterValue, float64(m.unserved), name)
		out.list = append(out.list, named{m.wait, descWait, prometheus.MakeLabelPairs(descWait, []string{name})})
	}
}

// collectAgents shows each agent; of those beyond the bound, the worst.
func (s *Scheduler) collectAgents(out *sink, now time.Time) {
	n, rest := 0, 0
	age, open, usable := 0.0, 0.0, 1.0
	for _, id := range slices.Sorted(maps.Keys(s.fleet.agents)) {
		v := s.fleet.agents[id]
		a := v.look(now)
		if n++; n <= maxAgents && id != other {
			out.add(descAge, prometheus.GaugeValue, now.Sub(v.at).Seconds(), id)
			out.add(descBreaker, prometheus.GaugeValue, fact(a.Open), id)
			out.add(descUsable, prometheus.GaugeValue, fact(a.Healthy && !a.Open), id)
			continue
		}
		rest++
		age, open, usable = max(age, now.Sub(v.at).Seconds()), max(open, fact(a.Open)), min(usable, fact(a.Healthy && !a.Open))
	}
	if rest > 0 {
		out.add(descAge, prometheus.GaugeValue, age, other)
		out.add(descBreaker, prometheus.GaugeValue, open, other)
		out.add(descUsable, prometheus.GaugeValue, usable, other)
	}
}

func fact(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// named shows a histogram under a name and with labels.
type named struct {
	prometheus.Histogram
	desc   *prometheus.Desc
	labels []*dto.LabelPair
}

// Desc implements [prometheus.Metric].
func (n named) Desc() *prometheus.Desc { return n.desc }

// Write implements [prometheus.Metric].
func (n named) Write(out *dto.Metric) error {
	if err := n.Histogram.Write(out); err != nil {
		return err
	}
	out.Label = n.labels
	return nil
}
