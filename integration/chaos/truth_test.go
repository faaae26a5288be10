package chaos

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestAgentsOwnTheTruth: whenever everything has come to rest, the agent's count is
// what the engine really has, and what everybody else reads in its beats
// (invariant 1).
func TestAgentsOwnTheTruth(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		a := f.addAgent("a", e, 8)
		f.addScheduler()
		f.addScheduler()
		g := f.addGateway()
		watch := f.bus.NewWire().Link(t, "watcher", f.log)
		view, err := bus.WatchFleet(watch)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		rnd := rand.New(rand.NewPCG(1, 2))
		for i := range 60 {
			at := time.Duration(rnd.IntN(8000)) * time.Millisecond
			wg.Go(func() {
				time.Sleep(at)
				g.ask(t.Context(), i, i%2 == 0)
			})
		}
		busy := 0
		for range 500 {
			time.Sleep(20*time.Millisecond + 500*time.Microsecond) // between the engine's steps
			said, has := a.Record().Active, int(e.sim.Counts().InFlight)
			if said != has {
				t.Errorf("invariant 1: the agent says %d, its engine has %d", said, has)
			}
			busy = max(busy, said)
		}
		wg.Wait()
		if busy != 8 {
			t.Errorf("at most %d slots were taken; the load should fill 8", busy)
		}
		time.Sleep(2 * time.Second)
		if list := view.Agents(); len(list) != 1 || list[0].Active != 0 || list[0].Counters.Succeeded != 60 {
			t.Errorf("invariant 1: beats say %+v", list)
		}
		f.settle()
		view.Close()
		watch.Close()
		f.close()
	})
}

// TestOneWriter: each key is written by the agent whose id it is, and no write
// follows from a request or a token (invariant 9).
func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		f.bus.Stop()
		f.bus = bustest.NewBus(t, dir)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 32)
		f.addAgent("b", e, 32)
		f.addScheduler()
		g := f.addGateway()
		watch := f.bus.NewWire().Link(t, "watcher", f.log)
		time.Sleep(3 * time.Second)
		writes := make(map[string]int)
		var mu sync.Mutex
		ctx, stop := context.WithCancel(t.Context())
		var watchers sync.WaitGroup
		for _, name := range []string{bus.BucketAgents, bus.BucketCounters} {
			kv, err := watch.Bucket(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			w, err := kv.WatchAll(ctx, jetstream.UpdatesOnly())
			if err != nil {
				t.Fatal(err)
			}
			watchers.Go(func() {
				for {
					select {
					case u := <-w.Updates():
						if u != nil {
							mu.Lock()
							writes[name+" "+u.Key()]++
							mu.Unlock()
						}
					case <-ctx.Done():
						_ = w.Stop()
						return
					}
				}
			})
		}
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 25 * time.Millisecond)
				g.ask(t.Context(), i, i%2 == 0)
			})
		}
		wg.Wait() // 10 s and a little
		time.Sleep(6 * time.Second)
		stop()
		watchers.Wait()
		allowed := map[string]int{"TB_AGENTS a": 4, "TB_AGENTS b": 4, "TB_COUNTERS agent.a": 5, "TB_COUNTERS agent.b": 5}
		for key, n := range writes {
			if n > allowed[key] {
				t.Errorf("invariant 9: %s was written %d times for 400 requests in 16 s", key, n)
			}
		}
		if writes["TB_COUNTERS agent.a"] == 0 {
			t.Error("the counters were never written")
		}
		f.settle()
		watch.Close()
		f.close()
	})
}

// TestUnknownIsNotZero: an answer whose engine says nothing of usage has none, and
// one that says 0 has 0 (invariant 11).
func TestUnknownIsNotZero(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 32)
		f.addScheduler()
		link := f.bus.NewWire().Link(t, "client", f.log)
		client, err := bus.NewClient(link)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = client.Run(ctx) })
		time.Sleep(2 * time.Second)
		for text, want := range map[string]bool{
			`{"choices":[{"finish_reason":"stop"}]}`:                                                          false,
			`{"choices":[{"finish_reason":"stop","usage":{"prompt_tokens":3}}]}`:                              false,
			`{"choices":[{"finish_reason":"stop"}],"usage":null}`:                                             false,
			`{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`:        true,
			`{"usage":{"completion_tokens":7,"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":2}}}`: true,
		} {
			e.sim.Heal(0)
			if _, err := e.sim.Inject(sim.Fault{Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Pieces: []sim.Piece{{Text: text}}}); err != nil {
				t.Fatal(err)
			}
			a, err := client.Call(ctx, bus.Request{API: bus.Chat, Body: []byte(requestBody(1, false)), Header: http.Header{}})
			if err != nil {
				t.Fatal(err)
			}
			if a.HasUsage != want || string(a.Body) != text {
				t.Errorf("invariant 11: %s has usage: %v (%v)", text, a.HasUsage, a.Usage)
			}
		}
		f.settle()
		stop()
		run.Wait()
		link.Close()
		f.close()
	})
}
