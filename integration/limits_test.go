package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const limit = 1 << 20 // of bodies in these tests

// sized is a chat request of exactly size bytes.
func sized(size int) []byte {
	head := `{"model":"` + model + `","messages":[{"role":"user","content":"`
	tail := `"}]}`
	return []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
}

// The limit holds however the body is framed, and the answer names it (413).
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.gateway.BodyLimit = limit })
	s.script("ok", jsonType, "{}")
	for name, c := range map[string]struct {
		size    int
		chunked bool
		status  int
		says    string
	}{
		"at the limit":             {limit, false, 200, ""},
		"at the limit, chunked":    {limit, true, 200, ""},
		"one above":                {limit + 1, false, 413, fmt.Sprint(limit + 1)},
		"one above, chunked":       {limit + 1, true, 413, "more than"},
		"twice the limit":          {2 * limit, false, 413, fmt.Sprint(2 * limit)},
		"twice the limit, chunked": {2 * limit, true, 413, "more than"},
	} {
		var body io.Reader = bytes.NewReader(sized(c.size))
		if c.chunked {
			body = io.MultiReader(body) // hides the length
		}
		a := s.do(http.MethodPost, "/v1/chat/completions", body, "X-Sim-Script", "ok")
		if c.status == 200 {
			if a.status != 200 {
				t.Errorf("%s: status %d: %.200s", name, a.status, a.body)
			}
			s.gotBody(name, sized(c.size))
			continue
		}
		e := isError(t, a, c.status)
		if e.Error.Code != "body_too_large" || !strings.Contains(e.Error.Message, fmt.Sprint(limit)) || !strings.Contains(e.Error.Message, c.says) {
			t.Errorf("%s: %+v", name, e)
		}
		if n := s.sim.Counts().Received; n != 0 {
			t.Errorf("%s: the engine saw %d requests", name, n)
			s.sim.ClearRecord()
		}
	}
	a := s.do(http.MethodPost, "/v1/messages", bytes.NewReader(sized(limit+1)))
	if e := isError(t, a, 413); e.Kind != "error" || e.Error.Type != "request_too_large" {
		t.Errorf("messages: %s", a.body)
	}
}

// wire is a connection to the gateway that is written by hand.
func (s *system) wire() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.gateway.Addr().String())
	check(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, bufio.NewReader(c)
}

// raw sends a request as it is written here and reads one answer.
func (s *system) raw(text string) answer {
	s.t.Helper()
	c, r := s.wire()
	_, err := io.WriteString(c, text)
	check(s.t, err)
	return s.readRaw(r)
}

func (s *system) readRaw(r *bufio.Reader) answer {
	s.t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
	if err != nil {
		s.t.Errorf("read the answer: %v", err)
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

// A client that asks before it sends gets its word: to go on, or 413 at once.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.gateway.BodyLimit = limit })
	s.script("ok", jsonType, "{}")
	head := func(size int) string {
		return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nX-Sim-Script: ok\r\n"+
			"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", size)
	}
	body := sized(100_000)
	c, r := s.wire()
	_, err := io.WriteString(c, head(len(body)))
	check(t, err)
	line, err := r.ReadString('\n')
	check(t, err)
	if line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("the gateway says %q", line)
	}
	_, _ = r.ReadString('\n')
	_, err = c.Write(body)
	check(t, err)
	if a := s.readRaw(r); a.status != 200 {
		t.Errorf("status %d: %.200s", a.status, a.body)
	}
	if h := s.last().Header.Get("Expect"); h != "" {
		t.Errorf("the engine got Expect: %s", h)
	}
	s.gotBody("expected", body)
	isError(t, s.raw(head(limit+1)), 413)
}
