package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A reused connection that gives no byte is replaced once; what fails on a fresh
// one, or behind a first byte, is not sent again (invariant 5).
func TestWireRetry(t *testing.T) {
	cases := map[string]struct {
		reuse        bool
		first        string // what the failing connection says
		again, works bool
	}{
		"reused, nothing":      {reuse: true, again: true, works: true},
		"reused, twice":        {reuse: true, again: true},
		"reused, half a head":  {reuse: true, first: "HTTP/1.1 20"},
		"reused, not HTTP":     {reuse: true, first: "hello\r\n\r\n"},
		"fresh, nothing":       {},
		"fresh, half a head":   {first: "HTTP/1.1 200 OK\r\nContent-"},
		"fresh, only a number": {first: "HTTP/1.1 103 Early Hints\r\n\r\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w, peers := newWire(t, 4)
			var p *peer
			if c.reuse {
				p = exchangeOnce(t, w, peers, nil)
			}
			done := start(t.Context(), w, post(t, w, strings.Repeat("b", 100)))
			if p == nil {
				p = await(t, peers)
			}
			p.request(t)
			p.say(t, c.first)
			_ = p.Close()
			if c.again {
				next := await(t, peers)
				if got := next.request(t); got != strings.Repeat("b", 100) {
					t.Errorf("the second time the engine got %q", got)
				}
				if c.works {
					next.say(t, okAnswer)
				}
				_ = next.Close()
			}
			r := await(t, done)
			if (r.err == nil) != c.works {
				t.Errorf("%v, %v", r.resp, r.err)
			}
			none(t, peers, "a failed request")
		})
	}
}

// A connection that the engine closed while it was idle is found out when it is
// used, and replaced.
func TestWireStale(t *testing.T) {
	w, peers := newWire(t, 4)
	p := exchangeOnce(t, w, peers, nil)
	_ = p.Close()
	exchangeOnce(t, w, peers, nil)
	none(t, peers, "one retry")
}

// A body that is closed early closes the connection, so that the engine stops
// (invariant 8).
func TestWireCloseEarly(t *testing.T) {
	w, peers := newWire(t, 4)
	done := start(t.Context(), w, post(t, w, "q"))
	p := await(t, peers)
	p.request(t)
	p.say(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	r := await(t, done)
	if r.err != nil {
		t.Fatal(r.err)
	}
	if _, err := io.ReadFull(r.resp.Body, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	_ = r.resp.Body.Close()
	p.closed(t)
	if err := r.resp.Body.Close(); err != nil || idleCount(w) != 0 {
		t.Errorf("closing again: %v; %d idle", err, idleCount(w))
	}
}

// The end of ctx closes the connection whatever it is doing (invariant 8).
func TestWireCancel(t *testing.T) {
	for name, reuse := range map[string]bool{"fresh": false, "reused": true} {
		t.Run(name+", waiting for the head", func(t *testing.T) {
			w, peers := newWire(t, 4)
			var p *peer
			if reuse {
				p = exchangeOnce(t, w, peers, nil)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := start(ctx, w, post(t, w, "q"))
			if p == nil {
				p = await(t, peers)
			}
			p.request(t)
			cancel()
			p.closed(t)
			if r := await(t, done); r.err == nil {
				t.Error("a cancelled request has an answer")
			}
			none(t, peers, "a cancelled request")
		})
	}
	t.Run("in the body", func(t *testing.T) {
		w, peers := newWire(t, 4)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := start(ctx, w, post(t, w, "q"))
		p := await(t, peers)
		p.request(t)
		p.say(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
		r := await(t, done)
		if r.err != nil {
			t.Fatal(r.err)
		}
		read := make(chan error, 1)
		go func() { _, err := io.ReadAll(r.resp.Body); read <- err }()
		cancel()
		p.closed(t)
		if err := await(t, read); err == nil {
			t.Error("a cancelled body ends well")
		}
		_ = r.resp.Body.Close()
		if idleCount(w) != 0 {
			t.Error("a cancelled connection is kept")
		}
	})
	t.Run("before", func(t *testing.T) {
		w, peers := newWire(t, 4)
		exchangeOnce(t, w, peers, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r := await(t, start(ctx, w, post(t, w, "q"))); r.err == nil {
			t.Error("a cancelled request has an answer")
		}
		none(t, peers, "a cancelled request")
	})
}

// An engine that takes no connection is told from one that broke one: nothing ran.
func TestWireRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: l.Addr().String(), dial: (&net.Dialer{}).DialContext, max: 1}
	_ = l.Close()
	if _, err := w.do(t.Context(), post(t, w, "q")); !refused(err) {
		t.Errorf("invariant 4: %v is no refusal", err)
	}
}

// Connections that are idle for engineIdle are closed, the younger ones are not,
// and no more than max are kept (invariant 10).
func TestWireIdle(t *testing.T) {
	t0 := time.Now()
	idle := func(w *wire, since time.Duration) net.Conn {
		a, b := net.Pipe()
		t.Cleanup(func() { _ = b.Close() })
		w.idle = append(w.idle, &wireConn{Conn: a, since: t0.Add(since)})
		return b
	}
	shut := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	var w wire
	old, edge, young := idle(&w, 0), idle(&w, time.Second), idle(&w, time.Second+1)
	w.tidy(t0.Add(engineIdle + time.Second))
	if len(w.idle) != 1 || !shut(old) || !shut(edge) || shut(young) {
		t.Fatalf("tidy leaves %d", len(w.idle))
	}
	if c := w.take(t0.Add(engineIdle + time.Second)); c == nil || len(w.idle) != 0 {
		t.Errorf("took %v", c)
	}
	a, b := idle(&w, 0), idle(&w, time.Second)
	if c := w.take(t0.Add(engineIdle + time.Second)); c != nil || len(w.idle) != 0 || !shut(a) || !shut(b) {
		t.Errorf("took %v, too old; %d idle", c, len(w.idle))
	}
	full, peers := newWire(t, 1)
	done1, done2 := start(t.Context(), full, post(t, full, "1")), start(t.Context(), full, post(t, full, "2"))
	p1, p2 := await(t, peers), await(t, peers)
	for _, p := range []*peer{p1, p2} {
		p.request(t)
		p.say(t, okAnswer)
	}
	for _, done := range []<-chan result{done1, done2} {
		r := await(t, done)
		if r.err != nil {
			t.Fatal(r.err)
		}
		_, _ = io.Copy(io.Discard, r.resp.Body)
	}
	if n := idleCount(full); n != 1 {
		t.Errorf("invariant 10: %d idle connections, at most 1 was asked for", n)
	}
}
