package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever clients do, every request ends once and nothing stays taken.
func TestBooksBalance(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 1))
				cfg := Default()
				cfg.MaxNumSeqs = 4
				if seed%4 == 3 {
					cfg.TokenInterval = 0
				}
				g, stop := start(t, cfg)
				defer stop()
				kinds := []string{ResetAfter, CloseAfter, ErrorAfter, StallAfter, Refuse, HangBeforeHeaders}
				for range 6 {
					g.inject(Fault{Kind: kinds[rng.IntN(len(kinds))], Tokens: rng.IntN(5), Count: 1 + rng.IntN(2), Match: "x"})
				}
				check := func() {
					r := g.Counts()
					if r.Received != r.Finished+r.Aborted+r.Rejected+r.Faulted+int64(r.InFlight) || r.Running > 4 || r.MaxRunning > 4 {
						t.Errorf("books do not balance: %+v", r)
					}
				}
				var all sync.WaitGroup
				for range 60 {
					wait := time.Duration(rng.IntN(1000)) * ms
					patience := time.Duration(1+rng.IntN(600)) * ms
					body := prompt(1+rng.IntN(3000), 1+rng.IntN(20), [...]string{"", `,"stream":true`}[rng.IntN(2)])
					if rng.IntN(10) == 0 {
						body = "{"
					}
					match := [...]string{"", "x"}[rng.IntN(2)]
					all.Go(func() {
						time.Sleep(wait)
						ctx, cancel := context.WithTimeout(context.Background(), patience)
						defer cancel()
						resp, err := g.do(ctx, "POST", "/v1/completions", body, "X-Sim-Fault-Match", match)
						if err == nil {
							_, _ = io.Copy(io.Discard, resp.Body)
							resp.Body.Close()
						}
						check()
					})
				}
				all.Wait()
				synctest.Wait()
				check()
				if r := g.Counts(); r.Received != 60 || r.InFlight != 0 || r.Running != 0 || r.Waiting != 0 {
					t.Errorf("at the end: %+v", r)
				}
			})
		})
	}
}

// Many streams are written at the same moments.
func TestManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := timing()
		cfg.MaxNumSeqs = 256
		g, stop := start(t, cfg)
		defer stop()
		began := time.Now()
		var all sync.WaitGroup
		for range 256 {
			all.Go(func() {
				if _, body := g.post("/v1/completions", prompt(1000, 4, `,"stream":true`)); strings.Count(body, "data: ") != 6 {
					t.Errorf("body %s", body)
				}
				if took := time.Since(began); took != 15*ms+3*20*ms {
					t.Errorf("took %v", took)
				}
			})
		}
		all.Wait()
		if n := g.Counts().MaxRunning; n != 256 {
			t.Errorf("%d ran at once", n)
		}
	})
}

// A large body, mostly one image, arrives whole.
func TestLargeBody(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	body := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		strings.Repeat("A", 65<<20) + `"}},{"type":"text","text":"hi"}]}],"max_tokens":1}`
	if status, answer := g.post("/v1/chat/completions", body); status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	sum := sha256.Sum256([]byte(body))
	e := g.Record().Requests[0]
	if e.BodyBytes != int64(len(body)) || e.BodySHA256 != hex.EncodeToString(sum[:]) || len(e.Body) != 64<<10 {
		t.Errorf("%d bytes, hash %s, kept %d", e.BodyBytes, e.BodySHA256, len(e.Body))
	}
}

// discard is a response writer that costs nothing.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}

// BenchmarkChat is one instant request through the handler alone.
func BenchmarkChat(b *testing.B) {
	for name, body := range map[string]string{"whole": askWhole, "stream": askStream} {
		b.Run(name, func(b *testing.B) {
			s, err := New(Instant())
			if err != nil {
				b.Fatal(err)
			}
			h := s.Handler()
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
				r.Header["Content-Type"] = contentJSON
				h.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
}

// BenchmarkChunk is one token of a stream.
func BenchmarkChunk(b *testing.B) {
	s, err := New(Instant())
	if err != nil {
		b.Fatal(err)
	}
	c := &call{s: s, id: "id", model: "m", seq: &sequence{}}
	e := &chatEncoder{c: c, q: &request{}, n: 1, reply: &reply{seeds: []uint64{1}}}
	e.prepare()
	var buf []byte
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		buf = e.step(buf[:0], i)
	}
}

// BenchmarkStep is one decode step of 256 streams.
func BenchmarkStep(b *testing.B) {
	cfg := Default()
	cfg.MaxNumSeqs = 256
	e := newEngine(&cfg, newMeters(cfg.MaxModelLen))
	now := time.Now()
	for range 256 {
		e.submit(&sequence{prompt: 1, chars: 1, want: 1 << 60, stopAt: -1, width: 1, stride: 1, each: true, wake: make(chan struct{}, 1)}, now)
	}
	b.ReportAllocs()
	for b.Loop() {
		next, _ := e.advance(now)
		now = next
	}
}
