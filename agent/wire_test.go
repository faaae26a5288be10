package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// peer is the engine's end of one connection of a wire.
type peer struct {
	net.Conn
	r *bufio.Reader
}

// request reads one request to its end and gives its body.
func (p *peer) request(t *testing.T) string {
	t.Helper()
	_ = p.SetDeadline(time.Now().Add(10 * time.Second))
	req, err := http.ReadRequest(p.r)
	if err != nil {
		t.Fatalf("engine: read a request: %v", err)
	}
	b, err := io.ReadAll(req.Body)
	if err != nil {
		t.Fatalf("engine: read a body: %v", err)
	}
	return string(b)
}

func (p *peer) say(t *testing.T, s string) {
	t.Helper()
	if _, err := io.WriteString(p, s); err != nil {
		t.Fatalf("engine: write: %v", err)
	}
}

// closed waits until the other end closed the connection.
func (p *peer) closed(t *testing.T) {
	t.Helper()
	_ = p.SetDeadline(time.Now().Add(10 * time.Second))
	n, err := io.Copy(io.Discard, p.r)
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() || n != 0 {
		t.Fatalf("the connection is not closed: %d bytes, %v", n, err)
	}
}

// newWire gives a wire to a listener on loopback, and its connections as accepted.
func newWire(t *testing.T, idle int) (*wire, <-chan *peer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan *peer, 16)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			peers <- &peer{c, bufio.NewReader(c)}
		}
	})
	w := &wire{addr: l.Addr().String(), dial: (&net.Dialer{}).DialContext, max: idle}
	t.Cleanup(func() { w.close(); _ = l.Close(); wg.Wait() })
	return w, peers
}

func post(t *testing.T, w *wire, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, "http://"+w.addr+"/v1/x", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

type result struct {
	resp *http.Response
	err  error
}

func start(ctx context.Context, w *wire, req *http.Request) <-chan result {
	done := make(chan result, 1)
	go func() { resp, err := w.do(ctx, req); done <- result{resp, err} }()
	return done
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing happens")
		panic("unreachable")
	}
}

func none(t *testing.T, peers <-chan *peer, what string) {
	t.Helper()
	select {
	case <-peers:
		t.Errorf("%s opened another connection", what)
	default:
	}
}

func idleCount(w *wire) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.idle)
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// exchangeOnce runs one whole exchange on the next connection of peers, or on p.
func exchangeOnce(t *testing.T, w *wire, peers <-chan *peer, p *peer) *peer {
	t.Helper()
	done := start(t.Context(), w, post(t, w, "hello"))
	if p == nil {
		p = await(t, peers)
	}
	if got := p.request(t); got != "hello" {
		t.Fatalf("the engine got %q", got)
	}
	p.say(t, okAnswer)
	r := await(t, done)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if b, err := io.ReadAll(r.resp.Body); err != nil || string(b) != "ok" {
		t.Fatalf("read %q, %v", b, err)
	}
	_ = r.resp.Body.Close()
	return p
}

// Bodies of every framing pass, informational answers are skipped, and the
// connection is kept exactly when it can be.
func TestWireAnswers(t *testing.T) {
	cases := map[string]struct {
		raw, body string
		status    int
		ends      bool // the engine closes behind it
		kept      int
		fails     bool
	}{
		"length":       {raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole", body: "whole", status: 200, kept: 1},
		"empty":        {raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", status: 200, kept: 1},
		"chunked":      {raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", body: "abcde", status: 200, kept: 1},
		"trailer":      {raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\na\r\n0\r\nX-T: 1\r\n\r\n", body: "a", status: 200, kept: 1},
		"1xx":          {raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", body: "no", status: 404, kept: 1},
		"close":        {raw: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", body: "x", status: 200},
		"until closed": {raw: "HTTP/1.1 200 OK\r\n\r\nto the end", body: "to the end", status: 200, ends: true},
		"HTTP/1.0":     {raw: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", body: "x", status: 200},
		"too much":     {raw: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", body: "x", status: 200},
		"half length":  {raw: "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", body: "half", status: 200, ends: true, fails: true},
		"half chunked": {raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", body: "half", status: 200, ends: true, fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, peers := newWire(t, 4)
			done := start(t.Context(), w, post(t, w, "q"))
			p := await(t, peers)
			p.request(t)
			p.say(t, c.raw)
			if c.ends {
				_ = p.Close()
			}
			r := await(t, done)
			if r.err != nil || r.resp.StatusCode != c.status {
				t.Fatalf("%+v, %v, want %d", r.resp, r.err, c.status)
			}
			b, err := io.ReadAll(r.resp.Body)
			if string(b) != c.body || (err != nil) != c.fails {
				t.Errorf("read %q, %v, want %q", b, err, c.body)
			}
			if n := idleCount(w); n != c.kept {
				t.Errorf("%d connections are kept, want %d", n, c.kept)
			}
			if c.kept == 0 && !c.ends {
				p.closed(t)
			}
		})
	}
}

// A connection whose body was read to its end serves the next request.
func TestWireReuse(t *testing.T) {
	w, peers := newWire(t, 4)
	p := exchangeOnce(t, w, peers, nil)
	for range 3 {
		exchangeOnce(t, w, peers, p)
	}
	none(t, peers, "a wire with an idle connection")
}
