package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
)

// Errors come as NATS micro's headers, with OpenAI's error object as the body.
func TestBareErrors(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc, all := s.bare(), make(map[string]asked)
	s.inject(failing("bad", http.StatusBadRequest, `{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}`))
	s.inject(failing("busy", http.StatusTooManyRequests, `{"error":{"message":"later","type":"x","param":null,"code":429}}`))
	for name, c := range map[string]struct {
		subject, body, script string
		code, reason          string
	}{
		"unknown api":          {"tb.req." + bus.EncodeToken(model) + ".sleep", `{}`, "", "404", "route_not_found"},
		"unknown model":        {bus.RequestSubject("none", bus.Chat), `{}`, "", "404", "model_not_found"},
		"a name not encoded":   {"tb.req.%%%.chat", `{}`, "", "400", "bad_request"},
		"another model":        {subject(bus.Chat), `{"model":"other"}`, "", "400", "bad_request"},
		"not JSON":             {subject(bus.Chat), `{"model":`, "", "400", "bad_request"},
		"empty":                {subject(bus.Chat), ``, "", "400", "bad_request"},
		"two models":           {subject(bus.Chat), `{"model":"` + model + `","Model":"other"}`, "", "400", "bad_request"},
		"engine's 400":         {subject(bus.Chat), `{}`, "bad", "400", ""},
		"engine's 400, stream": {subject(bus.Chat), `{"stream":true}`, "bad", "400", ""},
		"engine's 429":         {subject(bus.Chat), `{}`, "busy", "429", "engine_busy"},
	} {
		var h nats.Header
		if c.script != "" {
			h = nats.Header{"X-Sim-Script": {c.script}}
		}
		before := s.sim.Counts().Received
		all[name] = s.ask(nc, c.subject, c.body, h)
		m := all[name].next()
		if m.Header.Get("Nats-Service-Error-Code") != c.code || m.Header.Get("Nats-Service-Error") == "" || m.Header.Get("Tb-Reason") != c.reason {
			t.Errorf("%s: headers %v", name, m.Header)
		}
		var e errorBody
		if err := json.Unmarshal(m.Data, &e); err != nil || e.Error.Message == "" || e.Error.Type == "" {
			t.Errorf("%s: body %.200q: %v", name, m.Data, err)
		}
		if strings.Contains(name, "model") && !strings.Contains(name, "unknown") && e.param() != "model" {
			t.Errorf("%s: param %q, want model", name, e.param())
		}
		if n := s.sim.Counts().Received - before; (n > 0) != (c.script != "") {
			t.Errorf("%s: the engine saw %d requests", name, n)
		}
	}
	s.silent(all)
}

// A bare stream that breaks ends with an error, not with the empty message.
func TestBareBrokenStream(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc, all := s.bare(), make(map[string]asked)
	for name, end := range map[string]string{"clean": "", "reset": "reset"} {
		f := scripted(name, eventStream, event(chunkData, "\n"))
		f.Pieces, f.End = append(f.Pieces, sim.Piece{DelayMS: 20}), end
		s.inject(f)
		all[name] = s.ask(nc, subject(bus.Chat), `{"stream":true}`, nats.Header{"X-Sim-Script": {name}})
		if m := all[name].next(); string(m.Data) != event(chunkData, "\n") {
			t.Errorf("%s: first message %v %q", name, m.Header, m.Data)
		}
		m := all[name].next()
		if m.Header.Get("Nats-Service-Error-Code") != "502" || m.Header.Get("Tb-Reason") != "engine_lost" || !json.Valid(m.Data) {
			t.Errorf("invariant 6: %s: last message %v %q", name, m.Header, m.Data)
		}
	}
	s.silent(all)
}

// Headers of a bare caller can't reach another path or forge what the bus says.
func TestBareForged(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc := s.bare()
	for name, c := range map[string]struct {
		header nats.Header
		code   string
	}{
		"another path":  {nats.Header{"Tb-Path": {"/sleep"}}, "404"},
		"path of other": {nats.Header{"Tb-Path": {"/v1/embeddings"}}, "404"},
		"edits":         {nats.Header{"Tb-Splice": {"0 1 ["}}, ""},
		"strip":         {nats.Header{"Tb-Strip": {"usage"}}, ""},
		"body":          {nats.Header{"Tb-Body": {"tb.req.x.chat"}, "Tb-Size": {"10"}}, ""},
		"model":         {nats.Header{"Tb-Model": {"other"}, "Tb-Api": {"embeddings"}}, ""},
		"reply":         {nats.Header{"Tb-Reply": {"tb.stolen"}, "Tb-Attempt": {"x"}, "Tb-Sched": {"y"}}, ""},
		"credentials":   {nats.Header{"authorization": {"Bearer x"}, "x-api-key": {"x"}}, ""},
	} {
		m := s.ask(nc, subject(bus.Chat), chat(false, ""), c.header).next()
		if got := m.Header.Get("Nats-Service-Error-Code"); got != c.code {
			t.Errorf("%s: code %q, want %q: %.200s", name, got, c.code, m.Data)
		}
		if c.code != "" {
			continue
		}
		e := s.last()
		if e.Path != "/v1/chat/completions" || string(e.Body) != chat(false, "") {
			t.Errorf("%s: the engine got %s %s", name, e.Path, e.Body)
		}
		for h := range e.Header {
			if bus.Internal(h) || h == "Authorization" || h == "X-Api-Key" {
				t.Errorf("%s: the engine got the header %s", name, h)
			}
		}
	}
	if hits := fmt.Sprint(s.sim.Counts().Hits); strings.Contains(hits, "sleep") || strings.Contains(hits, "embeddings") {
		t.Errorf("hits: %s", hits)
	}
}
