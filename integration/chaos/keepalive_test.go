package chaos

import (
	"bytes"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus/bustest"
	"github.com/tokenbus/tokenbus/gateway"
)

// TestKeepAlive: with keep-alives on, each silence of a stream is bridged by
// comments, before its first event and between any two, and the stream ends with
// its last byte. Without the comments it is what the engine sent (invariant 7).
func TestKeepAlive(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		fault, want := script(5, 10*time.Second)
		f, _, g := newTrio(t, fault, 8, func(cfg *gateway.Config) { cfg.KeepAlive = time.Second })
		r := g.ask(t.Context(), 1, true)
		comment := []byte(": keep-alive\n\n")
		parts := bytes.Split(r.body, []byte("data: "))
		for i, p := range parts[:len(parts)-1] {
			if n := bytes.Count(p, comment); n < 8 || n > 10 {
				t.Errorf("silence %d of 10 s: %d comments, one a second is asked for", i, n)
			}
		}
		if got := bytes.ReplaceAll(r.body, comment, nil); !bytes.Equal(got, want) {
			t.Errorf("invariant 7: got %q, want %q", got, want)
		}
		if r.took > 61*time.Second {
			t.Errorf("the stream took %v, its engine 60 s", r.took)
		}
		f.settle()
		f.close()
	})
}
