package integration

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// h2c is a client that speaks HTTP/2 without TLS, and counts its connections.
func h2c(t testing.TB) (*http.Client, *atomic.Int64) {
	t.Helper()
	conns := new(atomic.Int64)
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conns.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}, conns
}

func (s *system) h2cPost(ctx context.Context, client *http.Client, body, script string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", jsonType)
	req.Header.Set("X-Sim-Script", script)
	return client.Do(req)
}

// Many streams share one HTTP/2 connection, each with its own bytes (invariant 12).
func TestH2C(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.agent.Capacity = 200 })
	client, conns := h2c(t)
	const streams = 100
	want := make([]string, streams)
	for i := range want {
		f := scripted(itoa(i), eventStream)
		for j := range 10 {
			piece := event(`{"choices":[{"delta":{"content":"`+itoa(i)+"-"+itoa(j)+`"}}]}`, "\n")
			f.Pieces = append(f.Pieces, piecesOf(piece, 5)...)
			want[i] += piece
		}
		f.Pieces, want[i] = append(f.Pieces, piecesOf(event("[DONE]", "\n"), 0)...), want[i]+event("[DONE]", "\n")
		s.inject(f)
	}
	resp, err := s.h2cPost(t.Context(), client, chat(false, ""), "warm")
	check(t, err)
	_ = resp.Body.Close()
	var wg sync.WaitGroup
	for i := range want {
		wg.Go(func() {
			resp, err := s.h2cPost(t.Context(), client, chat(true, ""), itoa(i))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 200 {
				t.Errorf("stream %d: %s, %s: %v", i, resp.Proto, resp.Status, err)
			}
			sameBytes(t, "stream "+itoa(i), got, []byte(want[i]))
		})
	}
	wg.Wait()
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// A stream that the client resets is cancelled at the engine; its neighbours on
// the connection go on (invariant 8).
func TestH2CReset(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.sim.TokenInterval = 5 * time.Millisecond })
	client, conns := h2c(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp, err := s.h2cPost(ctx, client, chat(true, `,"max_tokens":20000`), "reset")
	check(t, err)
	defer resp.Body.Close()
	_, err = bufio.NewReader(resp.Body).ReadString('\n')
	check(t, err)
	other, err := s.h2cPost(t.Context(), client, chat(true, `,"max_tokens":300`), "other")
	check(t, err)
	defer other.Body.Close()
	left := time.Now()
	cancel()
	s.aborted("reset", left, "decode")
	b, err := io.ReadAll(other.Body)
	if err != nil || !strings.HasSuffix(string(b), "data: [DONE]\n\n") {
		t.Errorf("the neighbour: %v: %d bytes", err, len(b))
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
