package sim

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestEngineProperty drives the engine without HTTP through any mix of
// arrivals, departures, faults and time.
func TestEngineProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Default()
		cfg.MaxNumSeqs = rapid.IntRange(1, 4).Draw(t, "slots")
		cfg.PrefillBase = time.Duration(rapid.IntRange(0, 2).Draw(t, "prefill")) * time.Millisecond
		cfg.TokenInterval = time.Duration(rapid.IntRange(0, 2).Draw(t, "interval")) * time.Millisecond
		e := newEngine(&cfg, newMeters(cfg.MaxModelLen))
		now := time.Unix(0, 0)
		var inside []*sequence
		arrived, left := 0, 0
		for range rapid.IntRange(1, 80).Draw(t, "actions") {
			switch rapid.IntRange(0, 2).Draw(t, "action") {
			case 0:
				s := &sequence{
					prompt: 1, chars: rapid.IntRange(0, 9).Draw(t, "chars"), want: rapid.IntRange(0, 4).Draw(t, "want"),
					stopAt: rapid.IntRange(-1, 3).Draw(t, "stop"), width: 1, stride: rapid.IntRange(1, 2).Draw(t, "stride"),
					each: true, wake: make(chan struct{}, 1), reason: "stop",
				}
				arrived++
				inside = append(inside, s)
				e.submit(s, now)
			case 1:
				if len(inside) > 0 {
					i := rapid.IntRange(0, len(inside)-1).Draw(t, "who")
					s := inside[i]
					inside = append(inside[:i], inside[i+1:]...)
					e.leave(s, now, s.state.Load() == complete)
					left++
				}
			case 2:
				next, busy := e.advance(now)
				if busy && !next.After(now) {
					t.Fatalf("something is still due at %v", now)
				}
				if busy {
					now = next
				}
			}
			running, queued, kv := 0, 0, 0
			for _, s := range inside {
				switch s.phase {
				case waiting:
					queued++
				case prefilling, decoding:
					running++
					kv += s.kv
				}
				if n := int(s.produced.Load()); n > s.want {
					t.Fatalf("%d of %d tokens", n, s.want)
				}
			}
			if e.running > cfg.MaxNumSeqs || e.running != running || e.waiting != queued || e.kv != kv {
				t.Fatalf("engine says running %d waiting %d kv %d; sequences say %d %d %d", e.running, e.waiting, e.kv, running, queued, kv)
			}
			if e.waiting > 0 && e.running < cfg.MaxNumSeqs {
				t.Fatal("a slot is free while others wait")
			}
		}
		for _, s := range inside {
			e.leave(s, now, false)
			left++
		}
		if _, busy := e.advance(now); busy || e.running != 0 || e.waiting != 0 || e.kv != 0 || left != arrived {
			t.Fatalf("left: running %d waiting %d kv %d", e.running, e.waiting, e.kv)
		}
		ends := int64(0)
		for _, n := range e.meters.success {
			ends += n
		}
		if ends != int64(arrived) {
			t.Fatalf("%d ends of %d sequences", ends, arrived)
		}
	})
}

func TestPrefixCache(t *testing.T) {
	const size = 4
	keys := func(p string) []uint64 { return blockKeys("", p, size) }
	c := newPrefixCache(3)
	for i, step := range []struct {
		prompt string
		held   int
	}{
		{"aaaabbbb", 0},
		{"aaaabbbb", 1}, // the last token is always computed
		{"aaaabbbbc", 2},
		{"aaaabbb", 1},
		{"xaaabbbb", 0},  // chained: same blocks, other prefix; 4 blocks in room for 3
		{"aaaabbbb!", 1}, // its tail left first
		{"日本語日本語日本語日本語", 0},  // characters, not bytes
		{"日本語日本語日本語日本語x", 3}, // full blocks only
	} {
		chars := len([]rune(step.prompt))
		if got := c.use(keys(step.prompt), (chars-1)/size); got != step.held {
			t.Errorf("step %d, %q: %d held, want %d", i, step.prompt, got, step.held)
		}
		if len(c.nodes) > 3 {
			t.Errorf("step %d: %d blocks", i, len(c.nodes))
		}
	}
	if blockKeys("a", "aaaa", size)[0] == blockKeys("b", "aaaa", size)[0] {
		t.Error("adapters share blocks")
	}
}

// Cached characters shorten the prefill and show in usage and metrics.
func TestPrefixHits(t *testing.T) {
	cfg := Instant()
	cfg.PrefixCache = true
	g, stop := start(t, cfg)
	defer stop()
	for i, cached := range []int{0, 240} { // 15 of the 16 full blocks
		_, body := g.post("/v1/completions", prompt(1024, 1, ""))
		usage := unmarshal[struct {
			Usage struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}](t, body).Usage
		if usage.Details.Cached != cached {
			t.Errorf("request %d: %d cached, want %d", i, usage.Details.Cached, cached)
		}
	}
	if e := g.Record().Requests[1]; e.CachedTokens != 240 {
		t.Errorf("entry %+v", e)
	}
	page := metricsOf(t, g)
	for name, want := range map[string]float64{
		"vllm:prefix_cache_queries_total": 512, "vllm:prefix_cache_hits_total": 240,
		"vllm:prompt_tokens_total": 512, "vllm:generation_tokens_total": 2, "vllm:num_requests_running": 0,
	} {
		if got := page[name]; got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func TestRecordBounds(t *testing.T) {
	cfg := Instant()
	cfg.KeepEntries, cfg.KeepRequests, cfg.KeepBodyBytes = 5, 2, 10
	g, stop := start(t, cfg)
	defer stop()
	for i := range 7 {
		g.post("/v1/embeddings", fmt.Sprintf(`{"input":"%d"}`, i), "X-Request-Id", fmt.Sprint(i))
	}
	g.send("POST", "/sleep")
	r := unmarshal[Record](t, func() string { _, b := g.post("/sim/record", ""); return b }())
	if r.Received != 7 || r.Finished != 7 || len(r.Requests) != 5 || r.Hits["/sleep"] != 1 || r.Hits["/v1/embeddings"] != 7 {
		t.Errorf("record %+v", r)
	}
	for i, e := range r.Requests {
		kept := i >= 3
		if e.RequestID != fmt.Sprint(i+2) || e.BodyBytes != 13 || len(e.BodySHA256) != 64 ||
			(e.Header != nil) != kept || (string(e.Body) == `{"input":"`) != kept {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	g.ClearRecord()
	if r := g.Record(); r.Received != 0 || len(r.Requests) != 0 || len(r.Hits) != 0 {
		t.Errorf("cleared record %+v", r)
	}
}

// An engine that sleeps admits nothing and says so; when it wakes up, it goes on.
func TestSleep(t *testing.T) {
	cfg := Instant()
	g, stop := start(t, cfg)
	defer stop()
	if status, _ := g.send("POST", "/sleep?level=3"); status != 400 {
		t.Errorf("level 3: status %d", status)
	}
	const body = `{"model":"sim-model","prompt":"x","max_tokens":1}`
	for level, state := range map[string]string{"": "weights_offloaded", "?level=1": "weights_offloaded", "?level=2": "discard_all"} {
		g.send("POST", "/sleep"+level)
		if _, b := g.post("/is_sleeping", ""); b != `{"is_sleeping":true}` {
			t.Errorf("sleep%s: %s", level, b)
		}
		_, page := g.post("/metrics", "")
		for s, v := range map[string]string{"awake": "0", state: "1"} {
			if !strings.Contains(page, `sleep_state="`+s+`"} `+v+"\n") {
				t.Errorf("sleep%s: %s is not %s", level, s, v)
			}
		}
		done := make(chan int)
		go func() {
			status, _ := g.post("/v1/completions", body)
			done <- status
		}()
		for g.Counts().Waiting == 0 {
			runtime.Gosched()
		}
		g.send("POST", "/wake_up")
		if status := <-done; status != 200 {
			t.Errorf("after sleep%s: status %d", level, status)
		}
		if _, b := g.post("/is_sleeping", ""); b != `{"is_sleeping":false}` {
			t.Errorf("after sleep%s: %s", level, b)
		}
	}
}
