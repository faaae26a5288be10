package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
)

const comment = ": keep-alive\n\n"

func keepAlive(o *options) { o.gateway.KeepAlive = 100 * time.Millisecond }

// Comments come while a stream is silent, before its first byte and between its
// events, never within one; without them the stream is the engine's.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	s := start(t, keepAlive)
	c := lines("\n")
	s.inject(sim.Fault{Kind: sim.Script, Name: "slow", Status: 200, Headers: map[string]string{"Content-Type": eventStream}, Pieces: []sim.Piece{
		{Text: c.head[:20], DelayMS: 350}, {Text: c.head[20:], DelayMS: 350}, {Text: c.usage + c.tail, DelayMS: 350},
	}})
	a := s.post("/v1/chat/completions", chat(true, askUsage), "X-Sim-Script", "slow")
	got := string(a.body)
	sameBytes(t, "without the comments", []byte(strings.ReplaceAll(got, comment, "")), []byte(c.sent(true)))
	if !strings.HasPrefix(got, comment) || !strings.Contains(got, c.head+comment) {
		t.Errorf("comments are missing: %q", got)
	}
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("status %d, %v", a.status, a.header)
	}
}

// Once comments were sent, whatever is no stream must come as an error event.
func TestKeepAliveThenError(t *testing.T) {
	t.Parallel()
	s := start(t, keepAlive)
	s.inject(sim.Fault{Kind: sim.HangBeforeHeaders, Name: "late", DelayMS: 400})
	s.inject(sim.Fault{Kind: sim.Script, Name: "late reset", Pieces: []sim.Piece{{DelayMS: 400}}, End: "reset"})
	for name, path := range map[string]string{"late": "/v1/chat/completions", "late reset": "/v1/chat/completions", "messages": "/v1/messages"} {
		script := name
		if name == "messages" {
			script = "late"
		}
		t.Run(name, func(t *testing.T) {
			// The engine says 400 to this, after a while.
			a := s.post(path, `{"model":"`+model+`","stream":true,"messages":[]}`, "X-Sim-Script", script)
			got := strings.ReplaceAll(string(a.body), comment, "")
			if a.status != 200 || !strings.HasPrefix(string(a.body), comment) {
				t.Fatalf("status %d: %q", a.status, a.body)
			}
			start := "data: {"
			if path == "/v1/messages" {
				start = "event: error\ndata: {"
			}
			if !strings.HasPrefix(got, start) || !strings.HasSuffix(got, "}\n\n") || !strings.Contains(got, `"error":`) {
				t.Errorf("no error event: %q", got)
			}
		})
	}
}
