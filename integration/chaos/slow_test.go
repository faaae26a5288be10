package chaos

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestSlowClient: a client that stops reading is cut after a limit. The engine is
// not read faster than the client, so memory stays flat, and nobody else suffers
// (invariants 3 and 10; design.md §8).
func TestSlowClient(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		a := f.addAgent("a", e, 8)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)

		// 64 MiB for the client that stops, a normal stream for the other.
		flood := sim.Fault{Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "text/event-stream"}, Contains: "request-1-"}
		flood.Pieces = append(flood.Pieces, sim.Piece{Text: "data: " + strings.Repeat("x", 1<<10) + "\n\n", Repeat: 64 << 10}, sim.Piece{Text: "data: [DONE]\n\n"})
		normal, want := script(100, 100*time.Millisecond)
		normal.Contains = "request-2-"
		for _, fault := range []sim.Fault{flood, normal} {
			if _, err := e.sim.Inject(fault); err != nil {
				t.Fatal(err)
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway/v1/chat/completions", strings.NewReader(requestBody(1, true)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			r := g.ask(t.Context(), 2, true)
			if !bytes.Equal(r.body, want) || r.took > 11*time.Second {
				t.Errorf("the other client: %d of %d bytes after %v", len(r.body), len(want), r.took)
			}
		})
		wg.Wait()
		if n := a.Active(); n != 1 {
			t.Errorf("%d requests are active, want the one that is stalled", n)
		}
		time.Sleep(3 * time.Minute)
		f.settle() // although the client has not closed its connection
		_ = resp.Body.Close()
		f.close()
	})
}

// TestTinyFrames: a stream of many frames of one byte is not held up by a window
// that counts bytes.
func TestTinyFrames(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		e := f.addEngine(engineConfig())
		f.addAgent("a", e, 8)
		f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		tiny := sim.Fault{Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "text/event-stream"}}
		var want bytes.Buffer
		for i := range 12_000 {
			text := fmt.Sprint(i % 10)
			tiny.Pieces = append(tiny.Pieces, sim.Piece{Text: text, DelayMS: 1})
			want.WriteString(text)
		}
		tiny.Pieces = append(tiny.Pieces, sim.Piece{Text: "\n\ndata: [DONE]\n\n"})
		want.WriteString("\n\ndata: [DONE]\n\n")
		if _, err := e.sim.Inject(tiny); err != nil {
			t.Fatal(err)
		}
		r := g.ask(t.Context(), 1, true)
		if !bytes.Equal(r.body, want.Bytes()) {
			t.Errorf("invariant 7: got %d bytes, want %d", len(r.body), want.Len())
		}
		if r.took > 13*time.Second {
			t.Errorf("the stream took %v, the engine needs 12 s", r.took)
		}
		f.settle()
		f.close()
	})
}
