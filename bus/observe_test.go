package bus_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestServerStats: what the server says of itself is what goes on.
func TestServerStats(t *testing.T) {
	srv, err := bus.NewServer(bus.ServerConfig{Name: bus.NewID(), DataDir: t.TempDir(), Domain: "t"})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	before, err := srv.Stats()
	if err != nil || before.JetStream == nil {
		t.Fatalf("%+v, %v", before, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	link, err := bus.Dial(ctx, bus.Config{Name: "test", InProcess: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if err := link.WaitJetStream(ctx); err != nil {
		t.Fatal(err)
	}
	took, err := link.RoundTrip(ctx)
	if err != nil || took <= 0 {
		t.Errorf("round trip %v, %v", took, err)
	}
	after, err := srv.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if n := after.Connections - before.Connections; n != 3 {
		t.Errorf("%d connections of a link, want 3", n)
	}
	if after.InMessages <= before.InMessages || after.InBytes <= before.InBytes || after.JetStream.APIRequests <= before.JetStream.APIRequests {
		t.Errorf("nothing was counted: %+v, %+v", before, after)
	}
	if link.Reconnects() != 0 || after.SlowConsumers != 0 {
		t.Errorf("%d reconnects, %d slow consumers", link.Reconnects(), after.SlowConsumers)
	}
}

// TestNoJetStreamStats: a server without JetStream has no numbers of it, not zeros
// (invariant 11).
func TestNoJetStreamStats(t *testing.T) {
	srv, err := bus.NewServer(bus.ServerConfig{Name: bus.NewID()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if s, err := srv.Stats(); err != nil || s.JetStream != nil {
		t.Errorf("%+v, %v", s.JetStream, err)
	}
}

// TestServes: a model is there while an agent that has it is heard.
func TestServes(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.NewBus(t, "")
		defer b.Stop()
		link := b.NewWire().Link(t, "watch", nil)
		defer link.Close()
		fleet, err := bus.WatchFleet(link)
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Close()
		r := bus.Record{State: bus.State{ID: "a", Epoch: "e", Seq: 1, Status: bus.StatusReady, Full: true}, Models: []bus.Model{{ID: "m"}}}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if fleet.Serves("m") {
			t.Error("a model without an agent")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := link.Flush(ctx); err != nil { // the server knows the subscription
			t.Fatal(err)
		}
		if err := link.Data[0].Publish(bus.BeatSubject("r", "a"), data); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !fleet.Serves("m") || fleet.Serves("n") {
			t.Error("the agent has m, and not n")
		}
		time.Sleep(bus.GoneAfter)
		if fleet.Serves("m") {
			t.Error("the agent is silent for too long")
		}
	})
}

// TestAccepted: a call remembers how far it had come when it ended.
func TestAccepted(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, time.Minute, func(*job) { <-release })
		defer w.stop()
		ctx, cancel := context.WithCancel(t.Context())
		call := w.start(ctx, nil)
		if call.Accepted() {
			t.Error("nobody has it yet")
		}
		time.Sleep(200 * time.Millisecond) // the agent greets
		if !call.Accepted() {
			t.Error("the agent has it")
		}
		cancel()
		if _, err := call.Head(); err == nil {
			t.Error("no error after the cancel")
		}
		if !call.Accepted() {
			t.Error("it is forgotten that an agent had it")
		}
		close(release)
		call.Close()
		w.settle(time.Second)
	})
}
