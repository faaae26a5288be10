package integration

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// second adds another engine with another model, and its agent.
func (s *system) second(id, serves string, capacity int) *sim.Server {
	s.t.Helper()
	cfg := sim.Instant()
	cfg.Models = []string{serves}
	engine, err := sim.New(cfg)
	check(s.t, err)
	s.run("engine of "+id, engine.Run)
	server := httptest.NewServer(engine.Handler())
	s.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	a := agent.Default()
	a.ID, a.EngineURL, a.Capacity, a.Version, a.Log = id, server.URL, capacity, "0.0.0", s.log
	p, err := agent.New(a, s.dial("agent "+id))
	check(s.t, err)
	s.agents = append(s.agents, p)
	s.run("agent "+id, p.Run)
	eventually(s.t, 10*time.Second, "the agent is ready", func() bool { return p.Record().EngineHealth == "ok" && s.scheduler.Agents() == len(s.agents) })
	eventually(s.t, 10*time.Second, "its model is listed", func() bool { return strings.Contains(string(s.get("/v1/models").body), `"`+serves+`"`) })
	return engine
}

// applyAs puts one document in force.
func (s *system) applyAs(name, text string) {
	s.t.Helper()
	d, err := policy.Parse(name, []byte(text))
	check(s.t, err)
	check(s.t, s.scheduler.ApplyPolicies([]*policy.Document{d}, 1))
}

// An alias is asked for and answered by its own name, in every API and every chunk; the
// engine sees the model's, and every other byte as it was.
func TestAlias(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.applyAs("chat", "models: [chat]\nsplit: {"+model+": 1}\n")
	for path, rest := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"say \"model\":\"` + model + `\""}]`,
		"/v1/completions":      `"prompt":"x"`,
		"/v1/responses":        `"input":"x"`,
		"/v1/messages":         `"max_tokens":9,"messages":[{"role":"user","content":"x"}]`,
		"/v1/embeddings":       `"input":"x"`,
	} {
		for _, stream := range []bool{false, true} {
			if stream && path == "/v1/embeddings" {
				continue
			}
			t.Run(fmt.Sprint(path, " stream ", stream), func(t *testing.T) {
				s.sim.ClearRecord()
				body := fmt.Sprintf(`{"z": 12345678901234567890, "model" : "chat","stream":%v,%s}`, stream, rest)
				a := s.post(path, body)
				if a.status != http.StatusOK || a.header.Get("X-Tokenbus-Model") != model {
					t.Fatalf("status %d, %v: %s", a.status, a.header, a.body)
				}
				if n := bytes.Count(a.body, []byte(`"model":"chat"`)) + bytes.Count(a.body, []byte(`"model": "chat"`)); n == 0 {
					t.Errorf("the answer does not name the alias: %s", a.body)
				}
				if bytes.Contains(a.body, []byte(`"model":"`+model+`"`)) {
					t.Errorf("the answer names the model: %s", a.body)
				}
				got := s.sim.Record().Requests
				if want := strings.Replace(body, `"chat"`, `"`+model+`"`, 1); len(got) != 1 || !sameRequest(string(got[0].Body), want) {
					t.Errorf("the engine got %s, want %s", got[0].Body, want)
				}
			})
		}
	}
	eventually(t, 5*time.Second, "the alias is listed", func() bool {
		return strings.Contains(string(s.get("/v1/models").body), `{"id":"chat","object":"model","created":0,"owned_by":"tokenbus","alias_of":["`+model+`"]}`)
	})
	if a := s.get("/v1/models/chat"); a.status != http.StatusOK {
		t.Errorf("GET of the alias: status %d", a.status)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	_ = w.WriteField("model", "chat")
	_, _ = w.CreateFormFile("file", "a.wav")
	_ = w.Close()
	e := isError(t, s.post("/v1/audio/transcriptions", form.String(), "Content-Type", w.FormDataContentType()), 400)
	if !strings.Contains(e.Error.Message, "is an alias") {
		t.Errorf("a form: %+v", e)
	}
}

// A bare caller on NATS may use an alias, too, and name no model in the body.
func TestAliasBare(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.applyAs("chat", "models: [chat]\nsplit: {"+model+": 1}\n")
	a := s.ask(s.bare(), bus.RequestSubject("chat", bus.Chat), `{"messages":[{"role":"user","content":"x"}]}`, nil).next()
	if !strings.Contains(string(a.Data), `"model":"chat"`) {
		t.Errorf("got %s", a.Data)
	}
}

// Models behind one alias get requests by their weights; a session stays with its
// model; and while a model has no agent, the others have its share.
func TestSplit(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.second("b", "other", 64)
	s.applyAs("chat", "models: [chat]\nsplit: {"+model+": 3, other: 1}\n")
	ask := func(user string) string {
		a := s.post("/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"x"}],"max_tokens":1}`, "X-Session-Id", user)
		if a.status != http.StatusOK {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		return a.header.Get("X-Tokenbus-Model")
	}
	got := make(map[string]int)
	for i := range 400 {
		user := fmt.Sprint("user-", i)
		m := ask(user)
		got[m]++
		if i%20 == 0 && ask(user) != m {
			t.Errorf("%s is sent to another model", user)
		}
	}
	// 100 of 400 are expected; five standard deviations are 43.
	if n := got["other"]; n < 57 || n > 143 || got[model]+n != 400 {
		t.Errorf("got %v, want 3 to 1", got)
	}
	s.stop("agent b")
	s.agents = s.agents[:1]
	eventually(t, 10*time.Second, "the agent is gone", func() bool { return s.scheduler.Agents() == 1 })
	for i := range 20 {
		if m := ask(fmt.Sprint("user-", i)); m != model {
			t.Errorf("sent to %s, which is gone", m)
		}
	}
}

// A shadow gets a copy of a request with its own model's name. The client sees nothing
// of it, and a shadow without room gets nothing.
func TestShadow(t *testing.T) {
	t.Parallel()
	s := start(t)
	other := s.second("b", "other", 1)
	s.applyAs("m", "models: ["+model+"]\nshadow: {model: other, share: 1}\n")
	for _, stream := range []bool{false, true} {
		other.ClearRecord()
		a := s.post("/v1/chat/completions", chat(stream, ""))
		if a.status != http.StatusOK || a.header.Get("X-Tokenbus-Agent") != "a" || bytes.Contains(a.body, []byte(`"other"`)) {
			t.Errorf("status %d by %s: %s", a.status, a.header.Get("X-Tokenbus-Agent"), a.body)
		}
		eventually(t, 5*time.Second, "the shadow has answered", func() bool { return other.Counts().Finished == 1 })
		got := other.Record().Requests
		if want := strings.Replace(chat(stream, ""), `"`+model+`"`, `"other"`, 1); len(got) != 1 || !sameRequest(string(got[0].Body), want) {
			t.Errorf("the shadow got %s, want %s", got[0].Body, want)
		}
		s.rest()
	}
	_, err := other.Inject(sim.Fault{Kind: sim.HangBeforeHeaders, Count: 1, DelayMS: 500})
	check(t, err)
	before := s.scheduler.Counters()
	for range 5 {
		if a := s.post("/v1/chat/completions", chat(false, "")); a.status != http.StatusOK {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	}
	after := s.scheduler.Counters()
	if after.Shadows-before.Shadows != 1 || after.Unshadowed-before.Unshadowed != 4 {
		t.Errorf("%d copies and %d left out, want 1 and 4", after.Shadows-before.Shadows, after.Unshadowed-before.Unshadowed)
	}
	_, err = other.Inject(sim.Fault{Kind: sim.FailStatus, Status: 500, Count: 1})
	check(t, err)
	eventually(t, 5*time.Second, "the shadow has room", func() bool { return s.agents[1].Active() == 0 })
	if a := s.post("/v1/chat/completions", chat(false, "")); a.status != http.StatusOK {
		t.Errorf("with a failing shadow: status %d: %s", a.status, a.body)
	}
	eventually(t, 5*time.Second, "the failure is counted", func() bool { return s.agents[1].Record().Counters.Failed == 1 })
	if n := s.scheduler.Counters().Retries; n != 0 {
		t.Errorf("%d retries of copies", n)
	}
}

// sameRequest compares bodies, but for the usage that a stream is asked for.
func sameRequest(got, want string) bool {
	return got == want || strings.Replace(got, `"stream_options":{"include_usage":true},`, "", 1) == want ||
		strings.Replace(got, `,"stream_options":{"include_usage":true}`, "", 1) == want
}
