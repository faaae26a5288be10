package sim

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// prompt returns a completions body with so many prompt characters.
func prompt(chars, tokens int, more string) string {
	return `{"prompt":"` + strings.Repeat("x", chars) + `","max_tokens":` + strconv.Itoa(tokens) + more + `}`
}

func timing() Config {
	c := Default()
	c.PrefixCache = false
	c.MaxNumSeqs = 2
	return c
}

// A lone request takes its prefill and n-1 steps, streamed or not.
func TestTimeAlone(t *testing.T) {
	for name, stream := range map[string]string{"whole": "", "stream": `,"stream":true`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, stop := start(t, timing())
				defer stop()
				began := time.Now()
				g.post("/v1/completions", prompt(2000, 5, stream))
				if took := time.Since(began); took != 25*ms+4*20*ms {
					t.Errorf("took %v", took)
				}
				e := g.Record().Requests[0]
				if e.FirstTokenAt.Sub(began) != 25*ms || e.Tokens != 5 || e.PromptTokens != 500 || e.Outcome != OutcomeFinished {
					t.Errorf("entry %+v", e)
				}
			})
		})
	}
}

// Requests share the step clock, and the third waits for a slot.
func TestTimeShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, stop := start(t, timing())
		defer stop()
		began := time.Now()
		type times struct{ first, last time.Duration }
		got := make([]times, 3)
		var all sync.WaitGroup
		for i, chars := range []int{1000, 2000, 500} {
			all.Go(func() {
				time.Sleep(time.Duration(i) * ms)
				resp, err := g.do(context.Background(), "POST", "/v1/completions", prompt(chars, 3, `,"stream":true`))
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				r := bufio.NewReader(resp.Body)
				if _, err := nextEvent(r); err != nil {
					t.Error(err)
				}
				got[i].first = time.Since(began)
				_, _ = io.Copy(io.Discard, r)
				got[i].last = time.Since(began)
			})
		}
		all.Wait()
		want := []times{
			{15 * ms, 55 * ms}, // starts the clock: 15, 35, 55
			{35 * ms, 75 * ms}, // prefilled at 26, joins at the next step
			{75 * ms, 115 * ms},
		}
		// The third gets its slot at 55 and is prefilled at 65.
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("request %d: %v, want %v", i, got[i], want[i])
			}
		}
		if r := g.Record(); r.MaxRunning != 2 || r.Queued != 3 || r.Started != 3 {
			t.Errorf("record %+v", r)
		}
	})
}

// An idle engine sets no timer: with nothing else to do, the bubble would
// otherwise never come to rest at the same time.
func TestIdleSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, stop := start(t, timing())
		g.post("/v1/completions", prompt(10, 2, ""))
		g.mu.Lock()
		if _, busy := g.engine.advance(time.Now()); busy {
			t.Error("something is due in an idle engine")
		}
		g.mu.Unlock()
		stop()
	})
}

// A client that leaves frees its slot in every phase.
func TestAbort(t *testing.T) {
	for name, c := range map[string]struct {
		busy  bool // both slots are taken
		after time.Duration
		phase string
	}{
		"waiting": {true, 5 * ms, "waiting"},
		"prefill": {false, 5 * ms, "prefill"},
		"decode":  {false, 60 * ms, "decode"},
	} {
		for kind, stream := range map[string]string{"whole": "", "stream": `,"stream":true`} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g, stop := start(t, timing())
					defer stop()
					var others sync.WaitGroup
					if c.busy {
						for range 2 {
							others.Go(func() { g.post("/v1/completions", prompt(10, 10, "")) })
						}
						synctest.Wait()
					}
					ctx, cancel := context.WithTimeout(context.Background(), c.after)
					defer cancel()
					resp, err := g.do(ctx, "POST", "/v1/completions", prompt(2000, 100, stream))
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					if err == nil {
						t.Error("the answer arrived")
					}
					synctest.Wait()
					r := g.Record()
					if r.Aborted != 1 || r.AbortedIn[c.phase] != 1 || r.Waiting != 0 || !c.busy && r.Running != 0 {
						t.Errorf("record %+v", r)
					}
					others.Wait()
				})
			})
		}
	}
}

// When Run ends, requests in the engine and later ones get an answer.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, stop := start(t, timing())
		defer stop()
		time.AfterFunc(50*ms, g.cancel)
		if status, body := g.post("/v1/completions", prompt(10, 100, "")); status != 500 {
			t.Errorf("%d %s", status, body)
		}
		if status, _ := g.post("/v1/completions", prompt(10, 1, "")); status != 500 {
			t.Errorf("later request: %d", status)
		}
		if status, _ := g.post("/health", ""); status != 503 {
			t.Errorf("health: %d", status)
		}
	})
}
