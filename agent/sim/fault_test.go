package sim

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const askStream = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":10,"stream":true}`
const askWhole = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":10}`

// TestFaults checks what a client sees of each fault, with and without time.
func TestFaults(t *testing.T) {
	type result struct {
		status  int
		content int // content events
		body    string
		err     error
		took    time.Duration
	}
	const limit = time.Hour
	for name, c := range map[string]struct {
		fault   Fault
		body    string
		check   func(r result) bool
		outcome string
	}{
		"fail": {Fault{Kind: FailStatus, Status: 429, Body: "slow down", Headers: map[string]string{"Retry-After": "7", "Content-Type": "text/plain"}}, askStream,
			func(r result) bool { return r.status == 429 && r.body == "slow down" }, OutcomeFaulted},
		"hang": {Fault{Kind: HangBeforeHeaders}, askStream,
			func(r result) bool { return r.took == limit && r.status == 0 }, OutcomeAborted},
		"hang a while": {Fault{Kind: HangBeforeHeaders, DelayMS: 60_000}, askWhole,
			func(r result) bool { return r.took >= time.Minute && r.took < 2*time.Minute && r.status == 200 }, OutcomeFinished},
		"delay": {Fault{Kind: DelayFirstToken, DelayMS: 60_000}, askStream,
			func(r result) bool { return r.took >= time.Minute && r.content == 10 }, OutcomeFinished},
		"stall": {Fault{Kind: StallAfter, Tokens: 3}, askStream,
			func(r result) bool { return r.took == limit && r.content == 3 && r.err != nil }, OutcomeAborted},
		"stall at once": {Fault{Kind: StallAfter}, askStream,
			func(r result) bool { return r.took == limit && r.content == 0 }, OutcomeAborted},
		"stall whole": {Fault{Kind: StallAfter, Tokens: 3}, askWhole,
			func(r result) bool { return r.took == limit && r.status == 0 }, OutcomeAborted},
		"reset": {Fault{Kind: ResetAfter, Tokens: 3}, askStream,
			func(r result) bool { return r.content == 3 && errors.Is(r.err, io.ErrUnexpectedEOF) }, OutcomeFaulted},
		"reset whole": {Fault{Kind: ResetAfter, Tokens: 3}, askWhole,
			func(r result) bool { return r.status == 0 && r.err != nil }, OutcomeFaulted},
		"close": {Fault{Kind: CloseAfter, Tokens: 3}, askStream,
			func(r result) bool { return r.content == 3 && r.err == nil && !strings.Contains(r.body, "[DONE]") }, OutcomeFaulted},
		"error": {Fault{Kind: ErrorAfter, Tokens: 3, Message: `bad "luck"`}, askStream,
			func(r result) bool {
				return r.content == 3 && r.err == nil && strings.HasSuffix(r.body,
					`data: {"error":{"message":"bad \"luck\"","type":"InternalServerError","param":null,"code":500}}`+"\n\n")
			}, OutcomeFaulted},
		"error and done": {Fault{Kind: ErrorAfter, Tokens: 3, Done: true}, askStream,
			func(r result) bool { return strings.HasSuffix(r.body, "}\n\ndata: [DONE]\n\n") }, OutcomeFaulted},
		"refuse": {Fault{Kind: Refuse}, askStream,
			func(r result) bool { return r.status == 0 && r.err != nil && r.took == 0 }, OutcomeFaulted},
		"no match": {Fault{Kind: Refuse, Match: "x"}, askStream,
			func(r result) bool { return r.content == 10 }, OutcomeFinished},
		"other path": {Fault{Kind: Refuse, Path: "/v1/completions"}, askStream,
			func(r result) bool { return r.content == 10 }, OutcomeFinished},
		"other body": {Fault{Kind: Refuse, Contains: "ho"}, askStream,
			func(r result) bool { return r.content == 10 }, OutcomeFinished},
		"script": {Fault{Kind: Script, Status: 418, Headers: map[string]string{"X-A": "b"}, Pieces: []Piece{{Text: ": hi\r\n"}, {DelayMS: 1000, Base64: []byte{1, 2}, Repeat: 2}}}, askStream,
			func(r result) bool {
				return r.status == 418 && r.body == ": hi\r\n\x01\x02\x01\x02" && r.took == time.Second
			}, OutcomeFaulted},
		"raw script": {Fault{Kind: Script, Raw: true, Pieces: []Piece{{Text: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"}}}, askStream,
			func(r result) bool {
				return r.status == 200 && r.body == "hel" && errors.Is(r.err, io.ErrUnexpectedEOF)
			}, OutcomeFaulted},
	} {
		for speed, cfg := range map[string]Config{"steps": Default(), "instant": Instant()} {
			t.Run(name+"/"+speed, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, stop := start(t, cfg)
					defer stop()
					g.inject(c.fault)
					ctx, cancel := context.WithTimeout(context.Background(), limit)
					defer cancel()
					var got result
					began := time.Now()
					resp, err := g.do(ctx, "POST", "/v1/chat/completions", c.body)
					if got.err = err; err == nil {
						var b []byte
						b, got.err = io.ReadAll(resp.Body)
						resp.Body.Close()
						got.status, got.body = resp.StatusCode, string(b)
						got.content = strings.Count(got.body, `"content":"`) - strings.Count(got.body, `"content":""`)
						if resp.Header.Get("X-Simulated-Engine") == "" && !c.fault.Raw {
							t.Error("the answer does not say that it is simulated")
						}
					}
					got.took = time.Since(began)
					if !c.check(got) {
						t.Errorf("status %d, %d content events, took %v, error %v\n%s", got.status, got.content, got.took, got.err, got.body)
					}
					synctest.Wait()
					if e := g.Record().Requests[0]; e.Outcome != c.outcome {
						t.Errorf("outcome %q, want %q", e.Outcome, c.outcome)
					}
					if r := g.Counts(); r.Running != 0 || r.InFlight != 0 {
						t.Errorf("record %+v", r)
					}
				})
			})
		}
	}
}

func TestFaultCount(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	for _, body := range []string{`{"kind":"nonsense"}`, `{`, `[{"kind":"refuse"},{"kind":"slow"}]`} {
		if status, answer := g.post("/sim/faults", body); status != 400 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, body := g.post("/sim/faults", `[{"kind":"fail_status","status":503,"count":2},{"kind":"fail_status","status":504,"count":1}]`); status != 200 || body != "{\"ids\":[1,2]}\n" {
		t.Fatalf("%d %s", status, body)
	}
	for i, want := range []int{503, 503, 504, 200} {
		if status, _ := g.post("/v1/chat/completions", askWhole); status != want {
			t.Errorf("request %d: %d, want %d", i, status, want)
		}
	}
	if n := len(g.Faults()); n != 0 {
		t.Errorf("%d faults are left", n)
	}
	g.inject(Fault{Kind: Sick, Count: 1})
	g.inject(Fault{Kind: FailStatus, Status: 500, Path: "/metrics"})
	for path, want := range map[string]int{"/health": 503, "/metrics": 500, "/v1/models": 200} {
		if status, _ := g.post(path, ""); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	g.Heal(0)
	if status, _ := g.post("/health", ""); status != 200 {
		t.Errorf("health after healing: %d", status)
	}
}

// A slow request gets its tokens every second step; others are not touched.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, stop := start(t, timing())
		defer stop()
		g.inject(Fault{Kind: Slow, Factor: 2, Count: 1})
		began := time.Now()
		g.post("/v1/completions", prompt(2000, 5, ""))
		if took := time.Since(began); took != 50*ms+4*40*ms {
			t.Errorf("took %v", took)
		}
	})
}

// Over TCP a reset is a reset.
func TestResetTCP(t *testing.T) {
	s, err := New(Instant())
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.Handler())
	defer hs.Close()
	if _, err := s.Inject(Fault{Kind: ResetAfter, Tokens: 1}); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(hs.URL+"/v1/chat/completions", "application/json", strings.NewReader(askStream))
	if err == nil {
		_, err = io.Copy(io.Discard, bufio.NewReader(resp.Body))
		resp.Body.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
