package schedule

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// standIn is an agent that beats, counts dispatches, and answers each with a note.
type standIn struct {
	record     bus.Record
	link       *bus.Link
	dispatches atomic.Int64
}

// maxDispatches ends a loop of dispatches and refusals, in which virtual time would
// stand still.
const maxDispatches = 500

func (a *standIn) run(t *testing.T, ctx context.Context, note bus.Note) {
	t.Helper()
	state := a.record.State
	if note == bus.NoteBusy {
		state.Active = state.Capacity // a refusal for want of room says so
	}
	notes := bus.NewNotifier(a.link, func() bus.State { return state })
	id, epoch := a.record.ID, a.record.Epoch
	sub, err := a.link.Subscribe(a.link.Data[0], bus.DispatchSubject(id, epoch), "", func(m *bus.Msg) {
		if a.dispatches.Add(1) < maxDispatches {
			notes.Say(bus.FirstHeader(m.Header, bus.HeaderSched), bus.FirstHeader(m.Header, bus.HeaderAttempt), note)
		}
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	go func() {
		for ctx.Err() == nil {
			a.link.PublishJSON(bus.BeatSubject("local", id), a.record)
			time.Sleep(200 * time.Millisecond)
		}
	}()
	_ = notes.Run(ctx)
}

// TestRefusalsDoNotLoop: a request that waits for room at one agent is not sent over
// and over to another, whatever that one refuses it for (invariants 4 and 10).
func TestRefusalsDoNotLoop(t *testing.T) {
	for _, note := range []bus.Note{bus.NoteUnknownModel, bus.NoteBusy, bus.NoteNotReady, bus.NoteDraining} {
		t.Run(string(note), func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				b := bustest.NewBus(t, "")
				ctx, cancel := context.WithCancel(context.Background())
				var bg sync.WaitGroup
				var links []*bus.Link
				dial := func(name string) *bus.Link {
					l := b.NewWire().Link(t, name, nil)
					links = append(links, l)
					return l
				}
				full, other := &standIn{record: beat("full", "e", 1, "m"), link: dial("full")}, &standIn{record: beat("other", "e", 1, "m"), link: dial("other")}
				full.record.Active = full.record.Capacity
				bg.Go(func() { full.run(t, ctx, bus.NoteBusy) })
				bg.Go(func() { other.run(t, ctx, note) })
				cfg := Default()
				cfg.Version = "0.0.0"
				s, err := New(cfg, dial("scheduler"))
				if err != nil {
					t.Fatal(err)
				}
				bg.Go(func() {
					if err := s.Run(ctx); err != nil {
						t.Error(err)
					}
				})
				c, err := bus.NewClient(dial("client"))
				if err != nil {
					t.Fatal(err)
				}
				bg.Go(func() { _ = c.Run(ctx) })
				time.Sleep(time.Second)

				call, err := c.Start(ctx, bus.Request{API: bus.Chat, Body: []byte(`{"model":"m","messages":[]}`)})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				// A beat each 200 ms may bring hope; a refusal must not.
				if n := other.dispatches.Load(); n == 0 || n > 60 {
					t.Errorf("%d dispatches in 5 s to an agent that refuses each", n)
				}
				if full.dispatches.Load() != 0 {
					t.Error("invariant 2: a dispatch went to a full agent")
				}
				if n, _ := s.Held(); n != 1 {
					t.Errorf("%d requests are held, want 1", n)
				}
				call.Close()
				time.Sleep(time.Second)
				if n, m := s.Held(); n != 0 || m != 0 {
					t.Errorf("invariant 3: %d requests are held", n)
				}
				cancel()
				bg.Wait()
				time.Sleep(time.Second)
				for _, l := range links {
					l.Close()
				}
				b.Stop()
			})
		})
	}
}
