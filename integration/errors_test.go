package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// attempts is how often the engine saw a request that names a script.
func (s *system) attempts(name string) int {
	n := 0
	for _, e := range s.sim.Record().Requests {
		if e.Header.Get("X-Sim-Script") == name {
			n++
		}
	}
	return n
}

// bodies that engines give with an error.
var bodies = map[string]struct{ kind, text string }{
	"numeric code":   {jsonType, `{"error":{"message":"no \"x\"","type":"BadRequestError","param":null,"code":400}}`},
	"error is text":  {jsonType, `{"error":"Unauthorized"}`},
	"plain text":     {"text/plain; charset=utf-8", "upstream says no"},
	"nested and odd": {jsonType, "{ \"detail\":[{\"loc\":[\"body\",0]}] }\n"},
	"nothing":        {jsonType, ""},
	"100 KB":         {jsonType, `{"error":{"message":"` + strings.Repeat("x", 100_000) + `"}}`},
}

// The engine's 4xx is relayed as it is, after exactly one attempt.
func TestErrorsClient(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, status := range []int{400, 401, 403, 404, 408, 409, 413, 422} {
		s.relayed(t, status, 1)
	}
	if c := s.agents[0].Record().Counters; c.Failed != 0 {
		t.Errorf("a 4xx counts as the engine's failure: %+v", c)
	}
}

// The engine's 429 and 5xx are tried again where there is another agent; at last
// the engine's own answer is relayed.
func TestErrorsServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, status := range []int{429, 500, 501, 503} {
		s.relayed(t, status, 3)
	}
}

// relayed checks that a status comes through with its body, its Retry-After and at
// most so many attempts.
func (s *system) relayed(t *testing.T, status, most int) {
	t.Helper()
	for what, body := range bodies {
		name := fmt.Sprintf("%d, %s", status, what)
		s.inject(failing(name, status, body.text, "Content-Type", body.kind, "Retry-After", "Wed, 21 Oct 2026 07:28:00 GMT"))
		for _, stream := range []bool{false, true} {
			s.sim.ClearRecord()
			a := s.post("/v1/chat/completions", chat(stream, ""), "X-Sim-Script", name)
			if a.status != status || a.err != nil || a.header.Get("Content-Type") != body.kind {
				t.Errorf("%s, stream %v: status %d, %v, %q: %.200q", name, stream, a.status, a.err, a.header.Get("Content-Type"), a.body)
				continue
			}
			sameBytes(t, name, a.body, []byte(body.text))
			if got := a.header.Get("Retry-After"); got != "Wed, 21 Oct 2026 07:28:00 GMT" {
				t.Errorf("%s: Retry-After %q", name, got)
			}
			if a.header.Get("X-Tokenbus-Agent") != "a" {
				t.Errorf("%s: receipt %v", name, a.header)
			}
			if n := s.attempts(name); n < 1 || n > most {
				t.Errorf("%s: %d attempts, want 1 to %d", name, n, most)
			}
		}
	}
}

// With another agent a failure before the first byte is not seen by the client.
func TestErrorsRetried(t *testing.T) {
	t.Parallel()
	s := start(t, freshSockets, func(o *options) { o.agents = 4 })
	for name, f := range map[string]sim.Fault{
		"429": {Kind: sim.FailStatus, Status: 429}, "503": {Kind: sim.FailStatus, Status: 503}, "500": {Kind: sim.FailStatus, Status: 500},
		"reset": {Kind: sim.Refuse}, "reset behind the head": {Kind: sim.Script, Status: 200, End: "reset"},
	} {
		f.Name, f.Count = name, 2
		s.inject(f)
		a := s.post("/v1/chat/completions", chat(true, ""), "X-Sim-Script", name)
		if a.status != 200 || !strings.HasSuffix(string(a.body), "data: [DONE]\n\n") || a.header.Get("X-Tokenbus-Attempts") != "3" {
			t.Errorf("%s: status %d after %s attempts: %.200s", name, a.status, a.header.Get("X-Tokenbus-Attempts"), a.body)
		}
		// Three tries are all there are.
		f.Name, f.Count = name+" always", 0
		s.inject(f)
		if a := s.post("/v1/chat/completions", chat(true, ""), "X-Sim-Script", f.Name); a.status < 429 {
			t.Errorf("%s: status %d", f.Name, a.status)
		}
		if n := s.attempts(f.Name); n != 3 {
			t.Errorf("%s: %d attempts, want 3", f.Name, n)
		}
	}
	// A 4xx is never tried elsewhere.
	s.inject(failing("400", 400, "{}"))
	s.post("/v1/chat/completions", chat(false, ""), "X-Sim-Script", "400")
	if n := s.attempts("400"); n != 1 {
		t.Errorf("400: %d attempts, want 1", n)
	}
}

// An engine that breaks before its first byte is a 502 in OpenAI's shape, never an
// empty 200.
func TestErrorsLost(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, f := range map[string]sim.Fault{
		"no answer":              {Kind: sim.Refuse},
		"head and reset":         {Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": eventStream}, End: "reset"},
		"head and nothing":       {Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": eventStream}},
		"empty JSON":             {Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": jsonType}},
		"no HTTP":                {Kind: sim.Script, Raw: true, Pieces: []sim.Piece{{Text: "SSH-2.0-x\r\n"}}},
		"length without a body ": {Kind: sim.Script, Raw: true, Pieces: []sim.Piece{{Text: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"}}},
	} {
		f.Name = strings.TrimSpace(name)
		s.inject(f)
		for _, stream := range []bool{false, true} {
			e := isError(t, s.post("/v1/chat/completions", chat(stream, ""), "X-Sim-Script", f.Name), 502)
			if e.Error.Code != "engine_lost" || e.Error.Type != "server_error" {
				t.Errorf("%s, stream %v: %+v", name, stream, e)
			}
		}
	}
}

// An answer that breaks within its body never looks whole (invariant 6).
func TestErrorsBrokenAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	const sent = `{"choices":[{"message":{"content":"hal`
	for name, f := range map[string]sim.Fault{
		"reset":        {Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": jsonType}, Pieces: []sim.Piece{{Text: sent}, {DelayMS: 20}}, End: "reset"},
		"short":        {Kind: sim.Script, Raw: true, Pieces: []sim.Piece{{Text: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n" + sent}}},
		"short, large": {Kind: sim.Script, Raw: true, Pieces: []sim.Piece{{Text: "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n" + sent}}},
	} {
		f.Name = name
		s.inject(f)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chat(false, "")))
		check(t, err)
		req.Header.Set("X-Sim-Script", name)
		resp, err := s.http.Do(req)
		if err != nil {
			continue // cut before the head: the client knows
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == 200 && err == nil {
			t.Errorf("invariant 6: %s: a broken answer looks whole: %q", name, got)
		}
	}
}

// The engine takes too long: 504 within the request's time.
func TestErrorsDeadline(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.gateway.Timeout = time.Second })
	s.inject(sim.Fault{Kind: sim.HangBeforeHeaders})
	for _, stream := range []bool{false, true} {
		if e := isError(t, s.post("/v1/chat/completions", chat(stream, "")), 504); e.Error.Code != "deadline_exceeded" {
			t.Errorf("stream %v: %+v", stream, e)
		}
	}
	eventually(t, time.Second, "the engine's requests are cancelled", func() bool { return s.sim.Counts().Aborted == 2 })
}
