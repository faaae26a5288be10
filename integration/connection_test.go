package integration

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// streamRequest is a request for the scripted stream, as it is written on the wire.
func streamRequest(proto, extra string) string {
	body := chat(true, askUsage)
	return fmt.Sprintf("POST /v1/chat/completions %s\r\nHost: g\r\nContent-Type: application/json\r\nX-Sim-Script: ok\r\n%sContent-Length: %d\r\n\r\n%s", proto, extra, len(body), body)
}

const healthRequest = "GET /health HTTP/1.1\r\nHost: g\r\n\r\n"

// A connection serves one request after the other, streams among them, also when
// the next request comes before the stream has ended.
func TestConnectionReuse(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := lines("\n")
	s.script("ok", eventStream, c.sent(true))
	stream := streamRequest("HTTP/1.1", "")
	isStream := func(what string, a answer) {
		t.Helper()
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), eventStream) || a.header.Get("Date") == "" || len(a.header["Date"]) != 1 {
			t.Errorf("%s: status %d, %v", what, a.status, a.header)
		}
		sameBytes(t, what, a.body, []byte(c.sent(true)))
	}
	isHealth := func(what string, a answer) {
		t.Helper()
		if a.status != 200 || !strings.Contains(string(a.body), "ok") {
			t.Errorf("%s: status %d: %s", what, a.status, a.body)
		}
	}
	t.Run("one after the other", func(t *testing.T) {
		w, r := s.wire()
		for i := range 5 {
			_, err := io.WriteString(w, stream)
			check(t, err)
			isStream(fmt.Sprint("stream ", i), s.readRaw(r))
			if i%2 == 1 {
				_, err = io.WriteString(w, healthRequest)
				check(t, err)
				isHealth(fmt.Sprint("health ", i), s.readRaw(r))
			}
		}
	})
	t.Run("ahead", func(t *testing.T) {
		w, r := s.wire()
		_, err := io.WriteString(w, strings.Repeat(stream+healthRequest, 3))
		check(t, err)
		for i := range 3 {
			isStream(fmt.Sprint("stream ", i), s.readRaw(r))
			isHealth(fmt.Sprint("health ", i), s.readRaw(r))
		}
	})
	for name, request := range map[string]string{
		"told to close": streamRequest("HTTP/1.1", "Connection: close\r\n"), "HTTP/1.0": streamRequest("HTTP/1.0", ""),
	} {
		t.Run(name, func(t *testing.T) {
			w, r := s.wire()
			_, err := io.WriteString(w, request)
			check(t, err)
			isStream(name, s.readRaw(r))
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("the connection is still open: %v", err)
			}
		})
	}
	t.Run("the next one is broken", func(t *testing.T) {
		w, r := s.wire()
		_, err := io.WriteString(w, stream)
		check(t, err)
		isStream("stream", s.readRaw(r))
		_, err = io.WriteString(w, "no request\r\n\r\n")
		check(t, err)
		if a := s.readRaw(r); a.status != 400 {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	})
}

// A connection that rests after a stream is closed after the idle timeout, as any.
func TestConnectionIdle(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.gateway.IdleTimeout = 200 * time.Millisecond })
	s.script("ok", eventStream, lines("\n").sent(true))
	w, r := s.wire()
	_, err := io.WriteString(w, streamRequest("HTTP/1.1", ""))
	check(t, err)
	s.readRaw(r)
	began := time.Now()
	if _, err := r.ReadByte(); err != io.EOF || time.Since(began) > 10*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// A stopping gateway closes connections that rest and lets streams end.
func TestConnectionsDrain(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := lines("\n")
	s.script("ok", eventStream, c.sent(true))
	rests, restsReader := s.wire()
	_, err := io.WriteString(rests, streamRequest("HTTP/1.1", ""))
	check(t, err)
	s.readRaw(restsReader)
	s.inject(sim.Fault{Kind: sim.Script, Name: "slow", Status: 200, Headers: map[string]string{"Content-Type": eventStream}, Pieces: []sim.Piece{
		{Text: c.head}, {Text: c.usage + c.tail, DelayMS: 1000},
	}})
	streams, streamsReader := s.wire()
	_, err = io.WriteString(streams, strings.Replace(streamRequest("HTTP/1.1", ""), "X-Sim-Script: ok", "X-Sim-Script: slow", 1))
	check(t, err)
	resp, err := http.ReadResponse(streamsReader, &http.Request{Method: http.MethodPost})
	check(t, err)
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	_, err = body.Peek(1)
	check(t, err)
	s.stop("gateway")
	if _, err := restsReader.ReadByte(); err != io.EOF {
		t.Errorf("the connection that rests: %v", err)
	}
	got, err := io.ReadAll(body)
	check(t, err)
	sameBytes(t, "the stream", got, []byte(c.sent(true)))
	if _, err := streamsReader.ReadByte(); err != io.EOF {
		t.Errorf("the connection of the stream is still open: %v", err)
	}
}

// Streams that do not end within the drain timeout are cut, with an error.
func TestConnectionsCut(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.gateway.DrainTimeout = 200 * time.Millisecond })
	c := lines("\n")
	s.inject(sim.Fault{Kind: sim.Script, Name: "ok", Status: 200, Headers: map[string]string{"Content-Type": eventStream}, Pieces: []sim.Piece{
		{Text: c.head}, {Text: c.usage + c.tail, DelayMS: 60_000},
	}})
	for range 3 {
		w, r := s.wire()
		_, err := io.WriteString(w, streamRequest("HTTP/1.1", ""))
		check(t, err)
		resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodPost})
		check(t, err)
		_, err = resp.Body.Read(make([]byte, 1))
		check(t, err)
		defer func() {
			defer resp.Body.Close()
			if rest, err := io.ReadAll(resp.Body); err == nil && !strings.Contains(string(rest), `"error"`) {
				t.Errorf("a cut stream looks finished: %q", rest)
			}
		}()
	}
	s.stop("gateway")
}
