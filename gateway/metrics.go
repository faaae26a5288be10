package gateway

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tokenbus/tokenbus/bus"
)

// Metrics gives what Prometheus is shown of the gateway. Latencies are shown under
// the names of Tokenbus and under those of OpenTelemetry's conventions for generative
// AI, in their Prometheus spelling.
func (g *Gateway) Metrics() prometheus.Collector { return &collector{g} }

type collector struct{ g *Gateway }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// The labels of OpenTelemetry's conventions.
var genAI = []string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"}

var (
	descActive     = desc("tokenbus_gateway_active_requests", "Requests under way.")
	descRequests   = desc("tokenbus_gateway_requests_total", "Requests by the status that the client was told; 499 is a client that left before there was one.", "model", "api", "code")
	descRefusals   = desc("tokenbus_gateway_refusals_total", "Requests answered with an error made by Tokenbus.", "reason")
	descCancelled  = desc("tokenbus_gateway_cancelled_requests_total", "Requests whose client left, by how far they had come.", "phase")
	descBroken     = desc("tokenbus_gateway_broken_streams_total", "Answers that broke after their head.")
	descSlow       = desc("tokenbus_gateway_slow_callers_total", "Clients that were cut because they did not read their answer.")
	descAnswers    = desc("tokenbus_gateway_answers_total", "Answers of engines, by class of status.", "class")
	descTokens     = desc("tokenbus_gateway_tokens_total", "Tokens as the engines counted them; cached ones are a part of those in.", "model", "direction")
	descResends    = desc("tokenbus_gateway_resends_total", "Gaps in streams that were asked for again.")
	descRepaired   = desc("tokenbus_gateway_gaps_repaired_total", "Gaps in streams that were filled.")
	descDuplicates = desc("tokenbus_gateway_duplicates_total", "Frames that came twice and were dropped.")
	descResubmits  = desc("tokenbus_gateway_resubmits_total", "Requests published again before their first byte.")
	descStrays     = desc("tokenbus_gateway_stray_frames_total", "Frames for requests that are over.")
	descOverhead   = desc("tokenbus_gateway_overhead_seconds", "Time added to the engine's: to the first byte of a stream, or to the end of another answer, without the wait for a slot.")

	descDuration   = desc("tokenbus_gateway_request_duration_seconds", "Time from the request to the end of its answer, of complete answers with 2xx.", "model", "api")
	descFirstToken = desc("tokenbus_gateway_time_to_first_token_seconds", "Time from the request to the first bytes of its stream (TTFT).", "model", "api")
	descPerToken   = desc("tokenbus_gateway_inter_token_latency_seconds", "Mean time between two tokens of a stream (ITL), of streams whose engine counts tokens.", "model", "api")

	descGenDuration   = desc("gen_ai_server_request_duration_seconds", "Time from the request to the end of its answer, of complete answers with 2xx.", genAI...)
	descGenFirstToken = desc("gen_ai_server_time_to_first_token_seconds", "Time from the request to the first bytes of its stream.", genAI...)
	descGenPerToken   = desc("gen_ai_server_time_per_output_token_seconds", "Mean time for each token of a stream after its first.", genAI...)
	descGenTokens     = desc("gen_ai_client_token_usage", "Tokens of a request, as the engine counted them.", append(slices.Clone(genAI), "gen_ai_token_type")...)
)

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descActive, descRequests, descRefusals, descCancelled, descBroken, descSlow, descAnswers, descTokens, descResends, descRepaired,
		descDuplicates, descResubmits, descStrays, descOverhead, descDuration, descFirstToken, descPerToken, descGenDuration,
		descGenFirstToken, descGenPerToken, descGenTokens,
	} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	g := c.g
	value := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		value(d, prometheus.CounterValue, float64(n), labels...)
	}
	now := g.Counters()
	value(descActive, prometheus.GaugeValue, float64(now.Active))
	for reason, n := range byReason(now.Rejected) {
		count(descRefusals, n, reason)
	}
	for i, name := range phaseNames {
		count(descCancelled, g.counters.cancelled[i].Load(), name)
	}
	count(descBroken, now.Broken)
	count(descSlow, g.meters.slow.Load())
	for i, class := range []string{"2xx", "3xx", "4xx", "5xx"} {
		count(descAnswers, now.Answered[i+2], class)
	}
	stats := g.client.Stats()
	count(descResends, stats.Resends)
	count(descRepaired, stats.Repaired)
	count(descDuplicates, stats.Duplicates)
	count(descResubmits, stats.Resubmits)
	count(descStrays, stats.Strays)
	ch <- named{g.meters.overhead, descOverhead, nil}
	g.meters.collect(ch, count)
}

// byReason gives every reason a count; reasons that are not in the table are other.
func byReason(rejected map[bus.Reason]uint64) map[string]uint64 {
	out := make(map[string]uint64)
	for _, r := range bus.Reasons() {
		out[string(r)] = rejected[r]
		delete(rejected, r)
	}
	for _, n := range rejected {
		out[other] += n
	}
	return out
}

func (m *meters) collect(ch chan<- prometheus.Metric, count func(*prometheus.Desc, uint64, ...string)) {
	all := m.purge(time.Now())
	tokens := make(map[string]bus.Usage)
	for p, s := range all {
		s.mu.Lock()
		codes, used := maps.Clone(s.codes), s.tokens
		s.mu.Unlock()
		for code, n := range codes {
			name := strconv.Itoa(code)
			if code == 0 {
				name = other
			}
			count(descRequests, n, p.model, string(p.api), name)
		}
		sum := tokens[p.model]
		tokens[p.model] = bus.Usage{Prompt: sum.Prompt + used.Prompt, Completion: sum.Completion + used.Completion, Cached: sum.Cached + used.Cached}
		s.collect(ch, p)
	}
	for _, model := range slices.Sorted(maps.Keys(tokens)) {
		u := tokens[model]
		count(descTokens, uint64(u.Prompt), model, "in")
		count(descTokens, uint64(u.Completion), model, "out")
		count(descTokens, uint64(u.Cached), model, "cached")
	}
}

// operation is the name that OpenTelemetry's conventions have for an API. Those for
// which they have none go by their own, so that no two share a series.
func operation(api bus.API) string {
	if api == bus.Completions {
		return "text_completion"
	}
	return string(api)
}

func (s *series) collect(ch chan<- prometheus.Metric, p pair) {
	show := func(h prometheus.Histogram, d *prometheus.Desc, values ...string) {
		if empty(h) {
			return // nothing was measured, which is not zero (invariant 11)
		}
		ch <- named{h, d, prometheus.MakeLabelPairs(d, values)}
	}
	own, gen := []string{p.model, string(p.api)}, []string{operation(p.api), "tokenbus", p.model}
	show(s.duration, descDuration, own...)
	show(s.firstToken, descFirstToken, own...)
	show(s.perToken, descPerToken, own...)
	show(s.duration, descGenDuration, gen...)
	show(s.firstToken, descGenFirstToken, gen...)
	show(s.perToken, descGenPerToken, gen...)
	show(s.input, descGenTokens, append(slices.Clone(gen), "input")...)
	show(s.output, descGenTokens, append(slices.Clone(gen), "output")...)
}

func empty(h prometheus.Histogram) bool {
	var m dto.Metric
	return h.Write(&m) != nil || m.Histogram.GetSampleCount() == 0
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
