package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/sim"
)

// registry holds everything that the parts show. It is pedantic: what is collected
// must be what was described.
func (s *system) registry() *prometheus.Registry {
	s.t.Helper()
	r := prometheus.NewPedanticRegistry()
	for _, c := range []prometheus.Collector{s.gateway.Metrics(), s.scheduler.Metrics(), agent.Metrics(s.agents...)} {
		check(s.t, r.Register(c))
	}
	return r
}

// scrape gives the values by name and labels, such as name{a=1,b=2}; of histograms
// the number of observations.
func scrape(t testing.TB, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	check(t, err)
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			slices.Sort(labels)
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value(m)
		}
	}
	return out
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return float64(m.Histogram.GetSampleCount())
}

// TestMetrics: what clients did is what the pages say, and the pages are clean.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/v1/chat/completions", chat(false, ""))
	s.post("/v1/chat/completions", chat(true, `,"max_tokens":8`))
	s.post("/v1/completions", `{"model":"`+model+`","prompt":"hello","stream":true,"max_tokens":8}`)
	s.post("/v1/embeddings", `{"model":"`+model+`","input":"hello"}`)
	s.post("/v1/chat/completions", `{"model":"made/up","messages":[]}`)
	s.post("/v1/chat/completions", `{`)
	s.get("/nowhere")
	s.rest()
	r := s.registry()
	problems, err := testutil.GatherAndLint(r)
	check(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	got := scrape(t, r)
	own := func(api string) string { return "{api=" + api + ",model=" + model + "}" }
	gen := func(op string) string {
		return "{gen_ai_operation_name=" + op + ",gen_ai_provider_name=tokenbus,gen_ai_request_model=" + model + "}"
	}
	for name, want := range map[string]float64{
		"tokenbus_gateway_requests_total{api=chat,code=200,model=" + model + "}":        2,
		"tokenbus_gateway_requests_total{api=completions,code=200,model=" + model + "}": 1,
		"tokenbus_gateway_requests_total{api=embeddings,code=200,model=" + model + "}":  1,
		"tokenbus_gateway_requests_total{api=chat,code=404,model=other}":                1,
		"tokenbus_gateway_requests_total{api=chat,code=400,model=other}":                1,
		"tokenbus_gateway_refusals_total{reason=model_not_found}":                       1,
		"tokenbus_gateway_refusals_total{reason=bad_request}":                           1,
		"tokenbus_gateway_refusals_total{reason=route_not_found}":                       1,
		"tokenbus_gateway_refusals_total{reason=queue_full}":                            0,
		"tokenbus_gateway_request_duration_seconds" + own("chat"):                       2,
		"tokenbus_gateway_time_to_first_token_seconds" + own("chat"):                    1,
		"tokenbus_gateway_inter_token_latency_seconds" + own("chat"):                    1,
		"gen_ai_server_request_duration_seconds" + gen("chat"):                          2,
		"gen_ai_server_time_to_first_token_seconds" + gen("text_completion"):            1,
		"gen_ai_server_time_per_output_token_seconds" + gen("text_completion"):          1,
		"tokenbus_gateway_active_requests{}":                                            0,
		"tokenbus_scheduler_queue_requests{model=" + model + "}":                        0,
		"tokenbus_scheduler_model_agents{model=" + model + "}":                          1,
		"tokenbus_scheduler_agent_usable{agent=a}":                                      1,
		"tokenbus_scheduler_breaker_open{agent=a}":                                      0,
		"tokenbus_scheduler_rejected_requests_total{reason=model_not_found}":            1,
		"tokenbus_agent_engine_up{agent=a}":                                             1,
		"tokenbus_agent_status{agent=a,status=ready}":                                   1,
		"tokenbus_agent_model_info{agent=a,model=" + model + "}":                        1,
		"tokenbus_agent_active_requests{agent=a}":                                       0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	// The tokens of clients are those of the engine.
	for direction, counter := range map[string]string{"in": "prompt", "out": "completion", "cached": "cached"} {
		clients := got["tokenbus_gateway_tokens_total{direction="+direction+",model="+model+"}"]
		engine := got["tokenbus_agent_"+counter+"_tokens_total{agent=a}"]
		if clients != engine || clients == 0 && direction != "cached" {
			t.Errorf("%s: clients saw %v tokens, the agent counted %v", direction, clients, engine)
		}
	}
	dispatched := got["tokenbus_scheduler_dispatches_total{}"]
	if n := got["tokenbus_scheduler_decisions_total{decision=default/routing_policy/least-loaded}"]; n != dispatched || n == 0 {
		t.Errorf("%v decisions of the default policy, %v dispatches", n, dispatched)
	}
	if n := got["tokenbus_scheduler_queue_wait_seconds{model="+model+"}"]; n != dispatched {
		t.Errorf("%v waits, %v dispatches", n, dispatched)
	}
	for name := range got {
		if strings.Contains(name, "made/up") {
			t.Errorf("a name that a client made up is a label: %s", name)
		}
	}
}

// TestMetricsOfCancels: a client that leaves is counted in the phase in which it left.
func TestMetricsOfCancels(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.agent.Capacity, o.sim.TokenInterval = 1, 10*time.Millisecond })
	r := s.registry()
	counted := func(phase string) bool {
		return scrape(t, r)["tokenbus_gateway_cancelled_requests_total{phase="+phase+"}"] == 1
	}
	s.inject(sim.Fault{Kind: sim.DelayFirstToken, Name: "slow", DelayMS: 60_000})
	first := s.leaver("/v1/chat/completions", chat(true, ""), "X-Sim-Script", "slow")
	eventually(t, 5*time.Second, "the engine runs it", func() bool { return s.sim.Counts().Running == 1 })
	second := s.leaver("/v1/chat/completions", chat(true, ""))
	eventually(t, 5*time.Second, "it waits", func() bool {
		return scrape(t, r)["tokenbus_scheduler_queue_requests{model="+model+"}"] == 1
	})
	second()
	eventually(t, 5*time.Second, "the second is counted as queued", func() bool { return counted("queued") })
	<-time.After(time.Second) // an agent that has a request greets its caller after a moment
	first()
	eventually(t, 5*time.Second, "the first is counted before its first byte", func() bool { return counted("before_first_byte") })
	s.rest()
	before := s.generated()
	third := s.leaver("/v1/chat/completions", long("/v1/chat/completions", true))
	eventually(t, 5*time.Second, "it streams", func() bool { return s.generated() != before })
	eventually(t, 5*time.Second, "its head is with the client", func() bool { return s.gateway.Counters().Answered[2] == 2 })
	third()
	eventually(t, 5*time.Second, "the third is counted as streaming", func() bool { return counted("streaming") })
	s.rest()
	got := scrape(t, r)
	for code, want := range map[string]float64{"499": 2, "200": 1} {
		if n := got["tokenbus_gateway_requests_total{api=chat,code="+code+",model="+model+"}"]; n != want {
			t.Errorf("%v requests with the code %s, want %v", n, code, want)
		}
	}
}

// TestMetricsGoAway: an agent that left has no series.
func TestMetricsGoAway(t *testing.T) {
	t.Parallel()
	s := start(t)
	r := s.registry()
	name := "tokenbus_scheduler_view_age_seconds{agent=a}"
	if _, ok := scrape(t, r)[name]; !ok {
		t.Fatalf("%s is missing", name)
	}
	s.stop("agent")
	eventually(t, 5*time.Second, "its series are gone", func() bool {
		_, ok := scrape(t, r)[name]
		return !ok
	})
	// What still asks for its model is the demand for one.
	if a := s.post("/v1/chat/completions", chat(false, "")); a.status != 503 {
		t.Errorf("status %d without an agent", a.status)
	}
	if n := scrape(t, r)[fmt.Sprintf("tokenbus_scheduler_unserved_requests_total{model=%s}", model)]; n != 1 {
		t.Errorf("%v requests without an agent are counted, want 1", n)
	}
}
