package integration

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// A socket that the engine closed while it was idle fails before any byte; the
// request goes out again on another, and no client sees it.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.sim.MaxModelLen = 1 << 30 })
	for name, body := range map[string]string{
		"small": chat(false, ""), "large": string(sized(1 << 20)), "stream": chat(true, ""),
		"large stream": strings.Replace(string(sized(1<<20)), "{", `{"stream":true,`, 1),
	} {
		warm := s.post("/v1/chat/completions", body) // bodies in memory and pulled ones have sockets of their own
		s.rest()
		s.inject(sim.Fault{Kind: sim.Refuse, Count: 1, Name: name})
		s.sim.ClearRecord()
		a := s.post("/v1/chat/completions", body, "X-Sim-Script", name)
		if warm.status != 200 || a.status != 200 || a.err != nil || a.header.Get("X-Tokenbus-Attempts") != "1" {
			t.Errorf("%s: status %d after %s attempts: %.200s", name, a.status, a.header.Get("X-Tokenbus-Attempts"), a.body)
			continue
		}
		list := s.sim.Record().Requests
		if len(list) != 2 || list[0].BodySHA256 != list[1].BodySHA256 || list[1].Outcome != sim.OutcomeFinished {
			t.Errorf("%s: the engine saw %d requests", name, len(list))
		}
	}
}

// freshSockets makes the engine close each connection behind its answer.
func freshSockets(o *options) {
	o.engine = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			h.ServeHTTP(w, r)
		})
	}
}

// A fresh socket that fails is not tried again by the agent itself: the engine may
// have run the request.
func TestReplayFreshSocket(t *testing.T) {
	t.Parallel()
	s := start(t, freshSockets)
	s.inject(sim.Fault{Kind: sim.Refuse, Name: "fresh"})
	isError(t, s.post("/v1/chat/completions", chat(false, ""), "X-Sim-Script", "fresh"), 502)
	if n := s.attempts("fresh"); n != 1 {
		t.Errorf("the engine saw %d requests, want 1", n)
	}
}

// What had its first byte is never sent again.
func TestReplayNotAfterFirstByte(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.agents = 2 })
	f := scripted("cut", eventStream, event(chunkData, "\n"))
	f.Pieces, f.End = append(f.Pieces, sim.Piece{DelayMS: 20}), "reset"
	s.inject(f)
	s.post("/v1/chat/completions", chat(false, ""))
	a := s.post("/v1/chat/completions", chat(true, ""), "X-Sim-Script", "cut")
	if n := s.attempts("cut"); n != 1 || !bytes.Contains(a.body, []byte("engine_lost")) {
		t.Errorf("invariant 5: the engine saw %d requests: %.300s", n, a.body)
	}
}
