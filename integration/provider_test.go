package integration

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// outside adds an outside provider, behind an agent of its own.
func (s *system) outside(name, as, key string) *sim.Server {
	s.t.Helper()
	cfg := sim.Instant()
	cfg.Models, cfg.APIKey = []string{as}, key
	engine, err := sim.New(cfg)
	check(s.t, err)
	s.run("provider", engine.Run)
	server := httptest.NewServer(engine.Handler())
	s.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	a := agent.Default()
	a.ID, a.EngineURL, a.EngineKey, a.Provider, a.Version, a.Log = "outside-"+name, server.URL, key, name, "0.0.0", s.log
	p, err := agent.New(a, s.dial("provider"))
	check(s.t, err)
	s.agents = append(s.agents, p)
	s.run("provider agent", p.Run)
	eventually(s.t, 10*time.Second, "the provider's agent is ready", func() bool { return p.Record().EngineHealth == "ok" && s.scheduler.Agents() == len(s.agents) })
	return engine
}

func (s *system) apply(text string) {
	s.t.Helper()
	d, err := policy.Parse("_default", []byte(text))
	check(s.t, err)
	check(s.t, s.scheduler.ApplyPolicies([]*policy.Document{d}, 1))
}

// A fallback provider gets what no step can place, with its own model's name and every
// other byte as it was, and the answer says so. It is not listed, and gets nothing
// that a step can place.
func TestProvider(t *testing.T) {
	t.Parallel()
	s := start(t)
	out := s.outside("openai", "gpt-outside", "sk-outside")
	body := `{"zz": 12345678901234567890, "model" : "` + model + `",  "stream":false,"messages":[{"role":"user","content":"é"}]}`
	ask := func() answer { return s.post("/v1/chat/completions", body) }

	s.apply("fallback_provider: {engine: openai, model: gpt-outside}\n")
	if a := ask(); a.status != 200 || a.header.Get("X-Tokenbus-Agent") != "a" {
		t.Errorf("a step can place it: status %d by %s", a.status, a.header.Get("X-Tokenbus-Agent"))
	}
	if n := len(out.Record().Requests); n != 0 {
		t.Errorf("the provider got %d requests", n)
	}
	s.apply("routing_policy: {strategy: least-loaded, match: {region: nowhere}}\nfallback_provider: {engine: openai, model: gpt-outside}\n")
	a := ask()
	if a.status != 200 || a.header.Get("X-Tokenbus-Decision") != "_default/fallback_provider/openai" || a.header.Get("X-Tokenbus-Agent") != "outside-openai" {
		t.Errorf("status %d, %v: %s", a.status, a.header, a.body)
	}
	got := out.Record().Requests
	if want := strings.Replace(body, `"`+model+`"`, `"gpt-outside"`, 1); len(got) != 1 || string(got[0].Body) != want {
		t.Errorf("the provider got %+v, want %s", got, want)
	}
	if !bytes.Contains(a.body, []byte(`"gpt-outside"`)) {
		t.Errorf("the answer was changed: %s", a.body)
	}
	stream := s.post("/v1/chat/completions", chat(true, ""))
	if !strings.HasSuffix(string(stream.body), "data: [DONE]\n\n") || strings.Contains(string(stream.body), `"usage":{`) {
		t.Errorf("a stream: %s", stream.body)
	}
	if strings.Contains(string(s.get("/v1/models").body), "gpt-outside") {
		t.Error("the provider's model is listed")
	}
	if a := s.post("/v1/chat/completions", `{"model":"gpt-outside","messages":[{"role":"user","content":"x"}]}`); a.status != 404 {
		t.Errorf("the provider's model can be asked for: status %d", a.status)
	}
	e := isError(t, s.post("/v1/messages", `{"model":"`+model+`","max_tokens":5,"messages":[{"role":"user","content":"x"}]}`), 503)
	if !strings.Contains(e.Error.Message, "does not have the API messages") {
		t.Errorf("another dialect: %+v", e)
	}
	if n := s.scheduler.Counters().Provided; n != 2 {
		t.Errorf("%d requests are counted", n)
	}
}

// When nothing is left, an error says step by step which filter removed whom
// (acceptance 16).
func TestExhausted(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.apply("routing_policy: {strategy: least-loaded, match: {region: nowhere}}\nfallback_chain:\n  - {name: fast, strategy: least-loaded, exclude_if: {capacity_utilization: {gte: 0}}}\n")
	e := isError(t, s.post("/v1/chat/completions", chat(false, "")), 503)
	for _, want := range []string{"step routing_policy: a match", "step fast: a gate capacity_utilization >= 0"} {
		if !strings.Contains(e.Error.Message, want) {
			t.Errorf("%q is missing in: %s", want, e.Error.Message)
		}
	}
	a := s.post("/v1/chat/completions", chat(false, ""), "X-Request-Id", "why-me")
	d, ok := s.scheduler.Explain("why-me")
	if a.status != 503 || !ok || len(d.Walks) != 2 || d.Outcome != "no_agents" || d.Walks[1].Candidates[0].Gate != "capacity_utilization >= 0" {
		t.Errorf("status %d, record %+v", a.status, d)
	}
}
