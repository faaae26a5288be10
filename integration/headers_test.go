package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// rawChat is a chat request with the given header lines.
func rawChat(target, script, body string, lines ...string) string {
	head := "POST " + target + " HTTP/1.1\r\nHost: gateway.example\r\nX-Sim-Script: " + script + "\r\nContent-Type: application/json\r\n"
	return head + strings.Join(append(lines, "Content-Length: "+itoa(len(body))), "\r\n") + "\r\n\r\n" + body
}

// What ends at one hop, what is the client's secret, and what only the bus may say
// does not reach the engine; the rest does.
func TestHeadersRequest(t *testing.T) {
	t.Parallel()
	const secret = "client-secret"
	s := start(t, func(o *options) { o.sim.APIKey, o.agent.EngineKey = "engine-key", "engine-key" })
	s.script("h", jsonType, "{}")
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	a := s.raw(rawChat("/v1/chat/completions", "h", chat(false, ""),
		"Connection: keep-alive, X-Listed, Te", "Keep-Alive: timeout=5", "TE: trailers", "Upgrade: h3", "Proxy-Connection: keep-alive",
		"Proxy-Authorization: Basic "+secret, "X-Listed: "+secret, "Authorization: Bearer "+secret, "X-Api-Key: "+secret, "Api-Key: "+secret,
		"Cookie: a="+secret, "X-Forwarded-For: 1.2.3.4", "X-Real-Ip: 1.2.3.4", "Forwarded: for=1.2.3.4",
		"Tb-Path: /sleep", "Tb-Model: other", "Tb-Api: embeddings", "Tb-Splice: 0 1 [", "Tb-Exclude: a", "Tb-Tries: 99", "Tb-Window: 1", "Tb-Stream: 1",
		"Tb-Reply: x.y", "Tb-Sched: x", "Tb-Query: a=b", "Tb-Budget-Ms: 0", "tb-body: tb.body.x.y", "TB-SIZE: 9", "X-Tokenbus-Agent: forged", "x-tokenbus-any: forged",
		"Nats-Trace-Dest: x", "Nats-Msg-Id: 1", "nats-service-error-code: 500", "Status: 503", "Description: no",
		"Traceparent: "+trace, "Tracestate: a=b", "Accept: application/json", "Accept-Encoding: gzip, br", "User-Agent: me/1.0", "X-Request-ID: my-id-1",
		"X-Twice: one", "X-Twice: two, three", "X-Empty:", "X-Odd: caf\xc3\xa9 \t\"x\"", "Idempotency-Key: k1", "Anthropic-Version: 2023-06-01", "X-Long: "+strings.Repeat("x", 20_000)))
	if a.status != 200 || a.header.Get("X-Request-Id") != "my-id-1" {
		t.Fatalf("status %d, id %q: %s", a.status, a.header.Get("X-Request-Id"), a.body)
	}
	e := s.last()
	if e.Path != "/v1/chat/completions" || e.Query != "" || string(e.Body) != chat(false, "") {
		t.Errorf("the engine got %s?%s %s", e.Path, e.Query, e.Body)
	}
	for name, values := range map[string][]string{
		"Authorization": {"Bearer engine-key"}, "Traceparent": {trace}, "Tracestate": {"a=b"}, "Accept": {"application/json"}, "User-Agent": {"me/1.0"},
		"X-Twice": {"one", "two, three"}, "X-Empty": {""}, "X-Odd": {"caf\xc3\xa9 \t\"x\""}, "Idempotency-Key": {"k1"}, "Anthropic-Version": {"2023-06-01"},
		"X-Long": {strings.Repeat("x", 20_000)}, "Status": {"503"}, "Description": {"no"}, "Content-Type": {jsonType},
	} {
		if !slices.Equal(e.Header[name], values) {
			t.Errorf("%s: the engine got %.200q, want %.200q", name, e.Header[name], values)
		}
	}
	for name, values := range e.Header {
		if strings.Contains(strings.Join(values, " "), secret) || strings.Contains(strings.Join(values, " "), "1.2.3.4") || strings.Contains(strings.Join(values, " "), "forged") {
			t.Errorf("the engine got %s: %q", name, values)
		}
		for _, prefix := range []string{"Tb-", "Nats-", "X-Tokenbus-", "Proxy-", "Connection", "Keep-Alive", "Te", "Upgrade", "Accept-Encoding", "Transfer-", "Trailer"} {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("the engine got %s: %q", name, values)
			}
		}
	}
	if got := e.RequestID; got == "" || got == "my-id-1" {
		t.Errorf("invariant 12: the engine's request id is %q, which the client chose", got)
	}
	a = s.post("/v1/chat/completions", chat(false, ""))
	if a.status != 200 {
		t.Errorf("no credentials: status %d: %s", a.status, a.body)
	}
}

// The header that net/http uses for its own replay is the client's too.
func TestHeadersIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.post("/v1/chat/completions", chat(false, ""), "X-Idempotency-Key", "k2")
	if got := s.last().Header["X-Idempotency-Key"]; !slices.Equal(got, []string{"k2"}) {
		t.Errorf("X-Idempotency-Key: the engine got %q", got)
	}
}

func TestHeadersRequestID(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range map[string]struct {
		id   string
		kept bool
	}{
		"kept": {"abc-123:", true}, "long": {strings.Repeat("x", 128), true}, "too long": {strings.Repeat("x", 129), false},
		"none": {"", false}, "space": {"a b", false}, "not ASCII": {"é", false},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/nowhere"} {
			var header []string
			if c.id != "" {
				header = []string{"X-Request-ID", c.id}
			}
			got := s.post(path, chat(false, ""), header...).header["X-Request-Id"]
			if len(got) != 1 || got[0] == "" || (got[0] == c.id) != c.kept {
				t.Errorf("%s, %s: id %q came back as %q", name, path, c.id, got)
			}
		}
	}
	// One id for many requests is one id for many engine requests.
	seen := make(map[string]bool)
	for range 5 {
		s.post("/v1/chat/completions", chat(false, ""), "X-Request-ID", "same")
		seen[s.last().RequestID] = true
	}
	if len(seen) != 5 || seen["same"] {
		t.Errorf("invariant 12: the engine saw the ids %v", seen)
	}
}

// Query strings pass as they are.
func TestHeadersQuery(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, query := range []string{"", "starting_after=3&stream=true", "a=%2F%20+%C3%A9&a=2;b&c", "=&&x", "api-version=2024-10-21"} {
		target := "/v1/chat/completions"
		if query != "" {
			target += "?" + query
		}
		if a := s.post(target, chat(false, "")); a.status != 200 {
			t.Errorf("query %q: status %d: %s", query, a.status, a.body)
			continue
		}
		if got := s.last().Query; got != query {
			t.Errorf("query %q came as %q", query, got)
		}
	}
}

// What an engine says of its own hop stays there; the rest of its headers reach
// the client, once each, and the receipt beside them.
func TestHeadersAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	wav := "RIFF\x00\x01\xff\xfe" + strings.Repeat("\x00\x80", 3000)
	head := []string{
		"HTTP/1.1 201 Made", "Connection: x-foo, keep-alive", "Keep-Alive: timeout=5", "X-Foo: 1", "Proxy-Authenticate: Basic", "Upgrade: h3",
		"Server: uvicorn", "Date: Mon, 01 Jan 2024 00:00:00 GMT", "Content-Type: audio/wav", "X-Dup: one", "X-Dup: two", "Set-Cookie: a=1", "Set-Cookie: b=2",
		"Retry-After: 7", "Retry-After-Ms: 7000", "Tb-Agent: forged", "Nats-Service-Error-Code: 500", "X-Tokenbus-Agent: forged", "X-Request-Id: engine-id",
		"Status: 503", "Openai-Processing-Ms: 5", "Content-Length: " + itoa(len(wav)), "", "",
	}
	s.inject(sim.Fault{Kind: sim.Script, Name: "wav", Raw: true, Pieces: []sim.Piece{{Text: strings.Join(head, "\r\n")}, {Base64: []byte(wav)}}})
	a := s.raw(rawChat("/v1/chat/completions", "wav", chat(false, ""), "X-Request-ID: mine"))
	if a.status != 201 {
		t.Fatalf("status %d: %.200s", a.status, a.body)
	}
	sameBytes(t, "binary answer", a.body, []byte(wav))
	for name, want := range map[string][]string{
		"Content-Type": {"audio/wav"}, "X-Dup": {"one", "two"}, "Set-Cookie": {"a=1", "b=2"}, "Retry-After": {"7"}, "Retry-After-Ms": {"7000"},
		"X-Tokenbus-Agent": {"a"}, "X-Tokenbus-Attempts": {"1"}, "X-Tokenbus-Queue-Ms": {"0"}, "X-Request-Id": {"mine"}, "Status": {"503"},
		"Openai-Processing-Ms": {"5"}, "Content-Length": {itoa(len(wav))},
	} {
		if !slices.Equal(a.header[name], want) {
			t.Errorf("%s: %q, want %q", name, a.header[name], want)
		}
	}
	if len(a.header["Date"]) != 1 || strings.Contains(a.header.Get("Date"), "2024") {
		t.Errorf("Date: %q", a.header["Date"])
	}
	for name := range a.header {
		for _, prefix := range []string{"Connection", "Keep-Alive", "X-Foo", "Proxy-", "Upgrade", "Server", "Tb-", "Nats-"} {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("the client got %s: %q", name, a.header[name])
			}
		}
	}
}
