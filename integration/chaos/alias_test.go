package chaos

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestAliasHandedBack: a request for an alias that waits at a scheduler which is
// stopped is answered under its alias by the next one.
func TestAliasHandedBack(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		e := f.addEngine(engineConfig())
		if _, err := e.sim.Inject(sim.Fault{
			Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "application/json"},
			Pieces: []sim.Piece{{DelayMS: 5000, Text: `{"model":"m"}`}},
		}); err != nil {
			t.Fatal(err)
		}
		f.addAgent("a", e, 1)
		first := f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		const alias = "models: [chat]\nsplit: {m: 1}\n"
		usePolicy(t, first, alias)
		answers := make(chan []byte, 3)
		for i := range cap(answers) {
			go func() {
				a, err := g.Client().Call(t.Context(), bus.Request{API: bus.Chat, Body: fmt.Appendf(nil, `{"model":"chat","messages":[{"role":"user","content":"%d"}]}`, i)})
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					answers <- nil
					return
				}
				answers <- a.Body
			}()
		}
		time.Sleep(time.Second)
		if n := first.Waiting(); n != 2 {
			t.Fatalf("%d requests wait, want 2", n)
		}
		second := f.addScheduler()
		usePolicy(t, second, alias)
		time.Sleep(time.Second)
		owner := first // of the queue, by the ids of both
		if second.Waiting() > 0 {
			owner = second
		}
		if n := owner.Waiting(); n != 2 {
			t.Fatalf("%d requests wait at the owner, want 2", n)
		}
		owner.end()
		owner.gone.Store(true) // what an agent has is not its any more
		for range cap(answers) {
			var got struct{ Model string }
			body := <-answers
			if err := json.Unmarshal(body, &got); err != nil || got.Model != "chat" {
				t.Errorf("answered with %s", body)
			}
		}
		f.settle()
	})
}
