package sim

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// pipeListener is an in-memory listener, so that HTTP runs in virtual time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is a running engine and a client for it.
type rig struct {
	*Server
	t      testing.TB
	client *http.Client
	cancel context.CancelFunc // stops Run
}

// start runs an engine over memory until the test, or its bubble, calls the
// returned function; that also checks that nothing is left in the engine.
func start(t testing.TB, cfg Config) (*rig, func()) {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	hs := &http.Server{Handler: s.Handler()}
	tr := &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 1000, DisableCompression: true}
	var running sync.WaitGroup
	running.Go(func() { _ = hs.Serve(l) })
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &rig{s, t, &http.Client{Transport: tr}, cancel}, func() {
		t.Helper()
		cancel()
		tr.CloseIdleConnections()
		_ = hs.Shutdown(context.Background())
		running.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		e := s.engine
		if e.running != 0 || e.waiting != 0 || e.kv != 0 || len(e.decode) != 0 || len(e.prefill) != 0 {
			t.Errorf("left in the engine: running %d, waiting %d, kv %d", e.running, e.waiting, e.kv)
		}
		if n := s.record.counts.InFlight; n != 0 {
			t.Errorf("%d requests in flight at the end", n)
		}
	}
}

// do sends a request; header are name, value pairs.
func (g *rig) do(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return g.client.Do(r)
}

// post sends a body, or asks for the path if there is none, and returns status and
// body.
func (g *rig) post(path, body string, header ...string) (int, string) {
	g.t.Helper()
	method := "POST"
	if body == "" {
		method = "GET"
	}
	return g.exchange(method, path, body, header...)
}

// send sends a request without a body.
func (g *rig) send(method, path string) (int, string) {
	g.t.Helper()
	return g.exchange(method, path, "")
}

func (g *rig) exchange(method, path, body string, header ...string) (int, string) {
	g.t.Helper()
	resp, err := g.do(context.Background(), method, path, body, header...)
	if err != nil {
		g.t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("%s: read answer: %v", path, err)
	}
	return resp.StatusCode, string(b)
}

func (g *rig) inject(f Fault) {
	g.t.Helper()
	if _, err := g.Inject(f); err != nil {
		g.t.Fatal(err)
	}
}

// events splits a complete event stream into its data.
func events(t testing.TB, body string) (data []string) {
	t.Helper()
	if !strings.HasSuffix(body, "\n\n") {
		t.Errorf("stream does not end with an empty line: %.80q", body)
	}
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		found := false
		for line := range strings.Lines(block) {
			if d, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok {
				if found {
					t.Errorf("two data lines in %q", block)
				}
				found, data = true, append(data, d)
				if d != "[DONE]" && !json.Valid([]byte(d)) {
					t.Errorf("not JSON: %s", d)
				}
			}
		}
		if !found {
			t.Errorf("no data in %q", block)
		}
	}
	return data
}

// nextEvent reads one data line.
func nextEvent(r *bufio.Reader) (string, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(d), nil
		}
	}
}

func unmarshal[T any](t testing.TB, s string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %.200s", err, s)
	}
	return v
}
