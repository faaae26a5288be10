package integration

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tokenbus/tokenbus/bus"
)

// bare is a plain NATS connection, as any program has one.
func (s *system) bare() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect(s.nats.URL(), nats.Name("a bare caller"))
	check(s.t, err)
	s.t.Cleanup(nc.Close)
	return nc
}

// asked is a bare request under way.
type asked struct {
	t   testing.TB
	sub *nats.Subscription
}

// ask publishes a request with an inbox of its own.
func (s *system) ask(nc *nats.Conn, subject, body string, header nats.Header) asked {
	s.t.Helper()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	check(s.t, err)
	check(s.t, nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: []byte(body), Header: header}))
	return asked{s.t, sub}
}

func (a asked) next() *nats.Msg {
	a.t.Helper()
	m, err := a.sub.NextMsg(10 * time.Second)
	if err != nil {
		a.t.Fatalf("no message: %v", err)
	}
	return m
}

// silent checks that nothing more comes to any of the callers. Every count of the
// system is back to zero by then.
func (s *system) silent(all map[string]asked) {
	s.t.Helper()
	s.rest()
	<-time.After(300 * time.Millisecond)
	for name, a := range all {
		if n, _, err := a.sub.Pending(); n != 0 || err != nil {
			m, err := a.sub.NextMsg(time.Second)
			s.t.Errorf("%s: %d messages too many: %+v %v", name, n, m, err)
		}
	}
}

func subject(api bus.API) string { return bus.RequestSubject(model, api) }

// A bare request gets exactly one reply: status headers and the whole body.
func TestBareRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc, all := s.bare(), make(map[string]asked)
	for name, c := range map[string]struct {
		api    bus.API
		body   string
		path   string
		upward string // what the engine gets
	}{
		"chat, model in the body":  {bus.Chat, chat(false, ""), "/v1/chat/completions", chat(false, "")},
		"chat, no model":           {bus.Chat, `{"messages":[{"role":"user","content":"hi"}]}`, "/v1/chat/completions", `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`},
		"embeddings, no model":     {bus.Embeddings, `{ "input":"hi"}`, "/v1/embeddings", `{"model":"` + model + `", "input":"hi"}`},
		"responses, stream: false": {bus.Responses, `{"input":"hi","stream":false}`, "/v1/responses", `{"model":"` + model + `","input":"hi","stream":false}`},
		"messages":                 {bus.Messages, `{"max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`, "/v1/messages", `{"model":"` + model + `","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`},
	} {
		all[name] = s.ask(nc, subject(c.api), c.body, nil)
		m := all[name].next()
		if got := m.Header.Get("Tb-Status"); got != "200" || m.Header.Get("Content-Type") != jsonType || m.Header.Get("Nats-Service-Error-Code") != "" {
			t.Errorf("%s: headers %v: %.200s", name, m.Header, m.Data)
		}
		if !json.Valid(m.Data) || bytes.Contains(m.Data, []byte(`"error":{`)) {
			t.Errorf("%s: body %.200q", name, m.Data)
		}
		if e := s.last(); e.Path != c.path || string(e.Body) != c.upward {
			t.Errorf("%s: the engine got %s %s", name, e.Path, e.Body)
		}
	}
	s.silent(all)
}

// The same through nats.Conn's own request, as `nats req` does it.
func TestBareRequestMux(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, err := s.bare().Request(subject(bus.Chat), []byte(`{"messages":[{"role":"user","content":"hello"}]}`), 10*time.Second)
	check(t, err)
	if m.Header.Get("Tb-Status") != "200" || m.Header.Get("Tb-Agent") != "a" {
		t.Errorf("headers %v", m.Header)
	}
}

// A bare streaming request gets the engine's bytes, then one empty message.
func TestBareStream(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc := s.bare()
	chunk := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\u00e9\"}}]}\r\n\r\n"
	usage := "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}\n\n"
	s.script("bare", eventStream, ": hi\n\n", chunk, usage, "data: [DONE]\n\n")
	for name, c := range map[string]struct{ more, want string }{
		"usage asked":     {askUsage, ": hi\n\n" + chunk + usage + "data: [DONE]\n\n"},
		"usage not asked": {"", ": hi\n\n" + chunk + "data: [DONE]\n\n"},
	} {
		a := s.ask(nc, subject(bus.Chat), `{"stream":true`+c.more+`,"messages":[]}`, nats.Header{"X-Sim-Script": {"bare"}})
		var got []byte
		for {
			m := a.next()
			if len(m.Header) > 0 {
				t.Errorf("%s: a message of the stream has headers %v", name, m.Header)
			}
			if len(m.Data) == 0 {
				break
			}
			got = append(got, m.Data...)
		}
		s.silent(map[string]asked{name: a})
		sameBytes(t, name, got, []byte(c.want))
	}
}
