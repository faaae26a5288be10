package agent

import (
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
)

// The record says what the engine does now, and how it did within the last minute.
func TestMeasure(t *testing.T) {
	cfg := sim.Default()
	cfg.MaxNumSeqs, cfg.LegacyMetrics = 2, true
	cfg.PrefillBase, cfg.PrefillPer1KChars, cfg.TokenInterval = 200*time.Millisecond, 0, 20*time.Millisecond
	cfg.PrefixCacheChars = 64_000
	onBench(t, cfg, nil, func(b *bench) {
		r := b.last()
		for _, name := range []string{signalAvgTTFT, signalP90TTFT, signalAvgITL, signalP90ITL, signalHitRate, signalSuccess, signalSRTT} {
			if v, ok := r.Signals[name]; ok {
				t.Errorf("invariant 11: nothing ran, and %s is %v", name, v)
			}
		}
		about(t, signalRunning, r.Signals, 0, 0)
		about(t, signalFailures, r.Signals, 0, 0)
		about(t, signalPreemptions, r.Signals, 0, 0)
		if r.CacheTokens != 16_000 {
			t.Errorf("room for %d tokens, want 16000", r.CacheTokens)
		}
		// Two run for 4 s, 6400 characters each, and the third waits for them.
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() { b.prompt([]string{"aaaa", "bbbb", "cccc"}[i], 6400, 200) })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(3 * time.Second)
		r = b.last()
		about(t, signalRunning, r.Signals, 2, 0)
		about(t, signalWaiting, r.Signals, 1, 0)
		about(t, signalCacheUse, r.Signals, 0.2+0.01, 0.01) // the prompts, and some of the replies
		if r.SignalAgeMS < 0 || r.SignalAgeMS > 1000 {
			t.Errorf("the age is %d ms", r.SignalAgeMS)
		}
		wg.Wait()
		time.Sleep(2500 * time.Millisecond)
		// One of two is in the cache but for its last block.
		b.prompt("aaaa", 6400, 1)
		time.Sleep(2500 * time.Millisecond)
		r = b.last()
		about(t, signalRunning, r.Signals, 0, 0)
		about(t, signalWaiting, r.Signals, 0, 0)
		about(t, signalAvgITL, r.Signals, 0.02, 0.004)
		about(t, signalP90ITL, r.Signals, 0.01+0.015*0.9, 0.001) // all in the bucket from 0.01 to 0.025
		about(t, signalHitRate, r.Signals, 0.25, 0.01)
		// 0.2 and 0.4 s at first, one after the other; 4.2 s for the third; 0.2 s at last.
		about(t, signalAvgTTFT, r.Signals, (0.2+0.4+4.4+0.2)/4, 0.15)
		about(t, signalP90TTFT, r.Signals, 2.5+2.5*0.6, 0.001)
		b.mu.Lock()
		n := len(b.beats)
		b.mu.Unlock()
		time.Sleep(10 * time.Second)
		b.mu.Lock()
		defer b.mu.Unlock()
		if got := len(b.beats) - n; got < 9 || got > 11 {
			t.Errorf("%d full beats within 10 s", got)
		}
		for _, r := range b.beats[n:] {
			about(t, signalRunning, r.Signals, 0, 0)
		}
	})
}

// A measurement that can't be renewed is dropped after 5 s and comes back; its age
// is said (invariant 11).
func TestMeasureStale(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"fails": {Kind: sim.FailStatus, Path: "/metrics", Status: 500},
		"hangs": {Kind: sim.HangBeforeHeaders, Path: "/metrics"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, sim.Instant(), nil, func(b *bench) {
				if _, err := b.sim.Inject(fault); err != nil {
					t.Fatal(err)
				}
				before := time.Now()
				for range 60 {
					time.Sleep(200 * time.Millisecond)
					r := b.agent.Record()
					_, known := r.Signals[signalRunning]
					age := time.Since(before)
					switch {
					case age < 3*time.Second && (!known || time.Duration(r.SignalAgeMS)*time.Millisecond < age):
						t.Fatalf("after %v: %v, %d ms old", age, r.Signals, r.SignalAgeMS)
					case age > signalsFor && (known || r.SignalAgeMS != 0):
						t.Fatalf("after %v: %v, %d ms old", age, r.Signals, r.SignalAgeMS)
					}
					about(t, signalFailures, r.Signals, 0, 0)
					if r.CacheTokens == 0 {
						t.Fatalf("after %v: the room is forgotten", age)
					}
				}
				if n := b.sim.Counts().Hits["/metrics"]; n < 8 {
					t.Errorf("asked only %d times", n)
				}
				b.sim.Heal(0)
				time.Sleep(2500 * time.Millisecond)
				about(t, signalRunning, b.last().Signals, 0, 0)
			})
		})
	}
}

// An engine that has no metrics is asked again each 30 s only.
func TestMeasureNone(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"404":   {Kind: sim.FailStatus, Path: "/metrics", Status: 404},
		"other": {Kind: sim.FailStatus, Path: "/metrics", Status: 200, Body: "<html>\nvllm:other 1\n</html>\n"},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, sim.Instant(), nil, func(b *bench) {
				if _, err := b.sim.Inject(fault); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2500 * time.Millisecond)
				before := b.sim.Counts().Hits["/metrics"]
				time.Sleep(5 * time.Minute)
				if n := b.sim.Counts().Hits["/metrics"] - before; n < 9 || n > 11 {
					t.Errorf("asked %d times within 5 minutes", n)
				}
				r := b.last()
				if _, known := r.Signals[signalRunning]; known || r.CacheTokens != 0 {
					t.Errorf("%v, room for %d tokens", r.Signals, r.CacheTokens)
				}
			})
		})
	}
}

func TestMeasureOff(t *testing.T) {
	onBench(t, sim.Instant(), func(c *Config) { c.MetricsInterval = 0 }, func(b *bench) {
		time.Sleep(time.Minute)
		if n := b.sim.Counts().Hits["/metrics"]; n != 0 {
			t.Errorf("asked %d times", n)
		}
		if r := b.last(); r.SignalAgeMS != 0 || len(r.Signals) != 1 {
			t.Errorf("%v, %d ms old", r.Signals, r.SignalAgeMS)
		}
	})
}

// The agent counts its own: the estimated tokens of what runs, how requests end, the
// time to the first byte.
func TestMeasureOwn(t *testing.T) {
	cfg := sim.Default()
	cfg.PrefillBase, cfg.PrefillPer1KChars, cfg.TokenInterval = 100*time.Millisecond, 0, 100*time.Millisecond
	onBench(t, cfg, nil, func(b *bench) {
		body := `{"model":"sim-model","prompt":"x","max_tokens":31}`
		first := b.dispatch("a1", body, map[string]string{bus.HeaderTokens: "1000 200"})
		second := b.dispatch("a2", body, map[string]string{bus.HeaderTokens: "30 4"})
		third := b.dispatch("a3", body, nil)
		time.Sleep(1500 * time.Millisecond)
		if s := b.last(); s.Active != 3 || s.Tokens != 1234 {
			t.Errorf("%d active, %d tokens", s.Active, s.Tokens)
		}
		for _, c := range []<-chan *bus.Msg{first, second, third} {
			if m := <-c; bus.FirstHeader(m.Header, bus.HeaderStatus) != "200" {
				t.Errorf("answer %v %s", m.Header, m.Data)
			}
		}
		time.Sleep(1100 * time.Millisecond)
		r := b.last()
		if r.Active != 0 || r.Tokens != 0 {
			t.Errorf("invariant 3: %d active, %d tokens", r.Active, r.Tokens)
		}
		about(t, signalSuccess, r.Signals, 1, 0)
		about(t, signalSRTT, r.Signals, 3200, 200) // no stream: the first byte comes with the last token

		if _, err := b.sim.Inject(sim.Fault{Kind: sim.FailStatus, Status: 500, Count: 2}); err != nil {
			t.Fatal(err)
		}
		<-b.dispatch("b1", body, nil)
		<-b.dispatch("b2", body, nil)
		if m := <-b.dispatch("b3", `{"model":"sim-model","max_tokens":-1}`, nil); bus.FirstHeader(m.Header, bus.HeaderStatus) != "400" {
			t.Errorf("answer %v %s", m.Header, m.Data)
		}
		if _, err := b.sim.Inject(sim.Fault{Kind: sim.FailStatus, Status: 429, Count: 1}); err != nil {
			t.Fatal(err)
		}
		<-b.dispatch("b4", body, nil)
		r = b.agent.Record()
		about(t, signalSuccess, r.Signals, 0.6, 0)
		about(t, signalFailures, r.Signals, 2, 0)
		about(t, signalSRTT, r.Signals, 3200, 200)
		if r.Counters.Failed != 3 || r.Counters.ClientErrors != 1 {
			t.Errorf("counters %+v", r.Counters)
		}
		time.Sleep(61 * time.Second)
		if v, ok := b.last().Signals[signalSuccess]; ok {
			t.Errorf("invariant 11: nothing finished within a minute, and the rate is %v", v)
		}
	})
}
