package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// cancelWithin is the time from a caller's leaving to the end of its work at the
// engine (invariant 8).
const cancelWithin = time.Second

// aborted checks that the engine's request of that name ended in time because its
// client went away. phase "" is any.
func (s *system) aborted(name string, left time.Time, phase string) {
	s.t.Helper()
	var e sim.Entry
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); pause() {
		if e, _ = s.named(name); e.Outcome != sim.OutcomeInFlight {
			break
		}
	}
	took := e.EndedAt.Sub(left)
	if e.Outcome != sim.OutcomeAborted || took > cancelWithin || phase != "" && e.Phase != phase {
		s.t.Errorf("invariant 8: %s: outcome %q in phase %q (want %q) %v after the caller left", name, e.Outcome, e.Phase, phase, took)
	}
}

// leaver sends a request in the background; the function that it gives closes the
// client's connection, and waits until the client is done.
func (s *system) leaver(path, body string, header ...string) (leave func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	check(s.t, err)
	req.Header.Set("Content-Type", jsonType)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := s.http.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	return func() { cancel(); <-done }
}

// apis are the endpoints whose requests last.
var apis = map[string]string{
	"/v1/chat/completions": `"messages":[{"role":"user","content":"hello"}],"max_tokens":20000`,
	"/v1/completions":      `"prompt":"hello","max_tokens":20000`,
	"/v1/responses":        `"input":"hello","max_output_tokens":20000`,
	"/v1/messages":         `"messages":[{"role":"user","content":"hello"}],"max_tokens":20000`,
}

func long(path string, stream bool) string {
	return fmt.Sprintf(`{"model":"%s","stream":%v,%s}`, model, stream, apis[path])
}

// A client that leaves while its request is prefilled or decoded.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.sim.TokenInterval = 10 * time.Millisecond })
	for path := range apis {
		for _, stream := range []bool{true, false} {
			for _, phase := range []string{"prefill", "decode"} {
				name := fmt.Sprintf("%s, stream %v, %s", path, stream, phase)
				t.Run(name, func(t *testing.T) {
					if phase == "prefill" {
						s.inject(sim.Fault{Kind: sim.DelayFirstToken, Name: name, DelayMS: 60_000})
					}
					before := s.generated()
					leave := s.leaver(path, long(path, stream), "X-Sim-Script", name)
					eventually(t, 5*time.Second, "the engine has it", func() bool {
						e, ok := s.named(name)
						return ok && e.PromptTokens > 0
					})
					if phase == "decode" {
						eventually(t, 5*time.Second, "it decodes", func() bool { return s.generated() != before })
					}
					left := time.Now()
					leave()
					s.aborted(name, left, phase)
				})
			}
		}
	}
	s.rest()
	if n := s.gateway.Counters().Cancelled; n != 16 {
		t.Errorf("%d cancelled requests are counted, want 16", n)
	}
	if c := s.agents[0].Record().Counters; c.Failed != 0 || c.Cancelled != 16 {
		t.Errorf("leaving clients count as failures: %+v", c)
	}
}

// generated is the engine's own count of tokens made.
func (s *system) generated() string {
	resp, err := http.Get(s.engine.URL + "/metrics")
	check(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(s.t, err)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "vllm:generation_tokens_total{") {
			return line
		}
	}
	s.t.Fatal("the engine does not count its tokens")
	return ""
}

// A client that leaves while its request waits: in the scheduler, because the
// agent is full, or in the engine.
func TestCancelQueued(t *testing.T) {
	t.Parallel()
	for where, full := range map[string]func(*options){
		"scheduler": func(o *options) { o.agent.Capacity = 1 },
		"engine":    func(o *options) { o.sim.MaxNumSeqs = 1 },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := start(t, full)
			s.inject(sim.Fault{Kind: sim.DelayFirstToken, Name: "first", DelayMS: 60_000})
			first := s.leaver("/v1/chat/completions", chat(true, ""), "X-Sim-Script", "first")
			eventually(t, 5*time.Second, "the engine runs the first", func() bool { return s.sim.Counts().Running == 1 })
			for path := range apis {
				for _, stream := range []bool{true, false} {
					name := fmt.Sprintf("%s, stream %v", path, stream)
					leave := s.leaver(path, long(path, stream), "X-Sim-Script", name)
					if where == "engine" {
						eventually(t, 5*time.Second, "it waits", func() bool { return s.sim.Counts().Waiting == 1 })
						left := time.Now()
						leave()
						s.aborted(name, left, "waiting")
						continue
					}
					eventually(t, 5*time.Second, "it waits", func() bool { return s.scheduler.Waiting() == 1 })
					leave()
					eventually(t, cancelWithin, "it waits no more (invariant 8)", func() bool { return s.scheduler.Waiting() == 0 })
					if _, ok := s.named(name); ok {
						t.Errorf("%s: the engine saw it", name)
					}
				}
			}
			left := time.Now()
			first()
			s.aborted("first", left, "prefill")
			s.rest()
			if a := s.post("/v1/chat/completions", chat(false, "")); a.status != 200 {
				t.Errorf("afterwards: status %d: %s", a.status, a.body)
			}
		})
	}
}

// A client that leaves within its upload reaches no engine.
func TestCancelUpload(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, head := range map[string]string{"length": "Content-Length: 1000000\r\n\r\n", "chunked": "Transfer-Encoding: chunked\r\n\r\n1000\r\n"} {
		c, _ := s.wire()
		_, err := io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\n"+head+chat(false, "")[:20])
		check(t, err)
		eventually(t, 5*time.Second, "the gateway reads", func() bool { return s.gateway.Counters().Active == 1 })
		_ = c.Close()
		eventually(t, cancelWithin, "the gateway gives up (invariant 8)", func() bool { return s.gateway.Counters().Active == 0 })
		if n := s.sim.Counts().Received; n != 0 {
			t.Errorf("%s: the engine saw %d requests", name, n)
		}
	}
}

// A client that leaves while the engine takes its large body in.
func TestCancelWhileEngineReads(t *testing.T) {
	t.Parallel()
	reading, ended := make(chan struct{}, 1), make(chan time.Time, 1)
	s := start(t, func(o *options) {
		o.engine = func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength < 10<<20 {
					h.ServeHTTP(w, r)
					return
				}
				b := bufio.NewReaderSize(r.Body, 64<<10)
				for {
					if _, err := b.Discard(32 << 10); err != nil {
						ended <- time.Now()
						return
					}
					select {
					case reading <- struct{}{}:
					default:
					}
					<-time.After(10 * time.Millisecond)
				}
			})
		}
	})
	leave := s.leaver("/v1/chat/completions", string(sized(40<<20)))
	<-reading
	left := time.Now()
	leave()
	select {
	case at := <-ended:
		if took := at.Sub(left); took > cancelWithin {
			t.Errorf("invariant 8: the engine's connection was closed %v after the client left", took)
		}
	case <-time.After(5 * time.Second):
		t.Error("invariant 8: the engine's connection stays open")
	}
}
