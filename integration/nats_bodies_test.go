package integration

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
)

// Bare requests carry their body in the message; the NATS client holds them to the
// server's limit.
func TestBareBodies(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc := s.bare()
	s.script("ok", jsonType, `{"ok":true}`)
	for name, size := range map[string]int{"33 KB": 33 << 10, "1.1 MB": 1_100_000, "7 MB": 7 << 20} {
		m := s.ask(nc, subject(bus.Chat), string(sized(size)), nats.Header{"X-Sim-Script": {"ok"}}).next()
		if code := m.Header.Get("Nats-Service-Error-Code"); code != "" || string(m.Data) != `{"ok":true}` {
			t.Errorf("%s: %v: %.200q", name, m.Header, m.Data)
		}
		s.gotBody(name, sized(size))
	}
}

// A body that fits the caller's message, but not the dispatch with its own headers,
// is served or refused as too large; it never makes a healthy agent look dead.
func TestBareBodyAtTheLimit(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc := s.bare()
	s.script("ok", jsonType, `{"ok":true}`)
	size := int(nc.MaxPayload()) - 100 // for our one header
	m := s.ask(nc, subject(bus.Chat), string(sized(size)), nats.Header{"X-Sim-Script": {"ok"}}).next()
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" && code != "413" {
		t.Errorf("%v: %.200q", m.Header, m.Data)
	}
	if a := s.post("/v1/chat/completions", chat(false, "")); a.status != 200 {
		t.Errorf("another caller, at once behind it: status %d: %s", a.status, a.body)
	}
}

// A bare caller's answer is one message, or an error that names the limit.
func TestBareAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	nc := s.bare()
	for name, size := range map[string]int{"1.1 MB": 1_100_000, "7 MB": 7 << 20, "9 MB": 9 << 20} {
		f := scripted(name, jsonType)
		f.Pieces = []sim.Piece{{Text: "x", Repeat: size}}
		s.inject(f)
		m := s.ask(nc, subject(bus.Chat), `{}`, nats.Header{"X-Sim-Script": {name}}).next()
		code, large := m.Header.Get("Nats-Service-Error-Code"), size > int(nc.MaxPayload())
		if !large && (code != "" || len(m.Data) != size) || large && (code != "413" || m.Header.Get("Tb-Reason") != "body_too_large") {
			t.Errorf("answer of %s: %v, %d bytes", name, m.Header, len(m.Data))
		}
	}
}
