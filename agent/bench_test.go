package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// bench is an agent beside a simulated engine, within a bubble.
type bench struct {
	t     *testing.T
	sim   *sim.Server
	http  *http.Client // to the engine
	link  *bus.Link    // of a bystander
	agent *Agent

	mu    sync.Mutex
	beats []bus.Record // full ones
}

// onBench runs a test with an engine and an agent that is ready.
func onBench(t *testing.T, engine sim.Config, change func(*Config), f func(*bench)) {
	bustest.Bubble(t, func(t *testing.T) {
		b := &bench{t: t}
		nats := bustest.NewBus(t, "")
		defer nats.Stop()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		var err error
		if b.sim, err = sim.New(engine); err != nil {
			t.Fatal(err)
		}
		listener := bustest.NewListener()
		server := &http.Server{Handler: b.sim.Handler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
		running.Go(func() { _ = b.sim.Run(ctx) })
		running.Go(func() { _ = server.Serve(listener) })
		defer func() { _ = server.Close() }()
		defer listener.Cut()
		b.http = &http.Client{Transport: &http.Transport{DialContext: listener.Dial, DisableKeepAlives: true}}

		log := slog.New(slog.DiscardHandler)
		b.link = nats.NewWire().Link(t, "bystander", log)
		defer b.link.Close()
		sub, err := b.link.Subscribe(b.link.Control, bus.AllBeats, "", func(m *bus.Msg) {
			r, err := bus.DecodeRecord(m.Data)
			if err != nil {
				t.Errorf("beat: %v", err)
			}
			if r.Full {
				b.mu.Lock()
				b.beats = append(b.beats, r)
				b.mu.Unlock()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		link := nats.NewWire().Link(t, "agent", log)
		defer link.Close()
		cfg := Default()
		cfg.ID, cfg.EngineURL, cfg.Dial, cfg.Version, cfg.Log = "a", "http://engine", listener.Dial, "0.0.0", log
		if change != nil {
			change(&cfg)
		}
		if b.agent, err = New(cfg, link); err != nil {
			t.Fatal(err)
		}
		life, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.agent.Run(life) }()
		time.Sleep(2500 * time.Millisecond)
		f(b)
		stop()
		if err := <-done; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
}

// last is the newest full beat.
func (b *bench) last() bus.Record {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.beats) == 0 {
		b.t.Fatal("no full beat came")
	}
	return b.beats[len(b.beats)-1]
}

// prompt asks the engine itself for so many tokens, with a prompt of the size.
func (b *bench) prompt(word string, chars, tokens int) {
	body := fmt.Sprintf(`{"model":"sim-model","prompt":%q,"max_tokens":%d,"ignore_eos":true}`, strings.Repeat(word, chars/len(word)), tokens)
	resp, err := b.http.Post("http://engine/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		b.t.Errorf("engine: %v", err)
		return
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != 200 {
		b.t.Errorf("engine: %d, %v", resp.StatusCode, err)
	}
}

// dispatch sends a request to the agent as a scheduler does, for a bare caller, and
// gives the whole answer.
func (b *bench) dispatch(attempt, body string, header map[string]string) <-chan *bus.Msg {
	b.t.Helper()
	answers := make(chan *bus.Msg, 16)
	inbox := "test.inbox." + attempt
	sub, err := b.link.Subscribe(b.link.Data[0], inbox, "", func(m *bus.Msg) { answers <- m })
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = sub.Unsubscribe() })
	m := &bus.Msg{Subject: bus.DispatchSubject("a", b.agent.epoch), Data: []byte(body), Header: bus.Header{
		bus.HeaderSched: {"s"}, bus.HeaderAttempt: {attempt}, bus.HeaderReply: {inbox},
		bus.HeaderModel: {"sim-model"}, bus.HeaderAPI: {string(bus.Completions)}, "Content-Type": {"application/json"},
	}}
	for name, v := range header {
		m.Header[name] = []string{v}
	}
	if err := errors.Join(b.link.Data[0].Flush(), b.link.Data[0].PublishMsg(m)); err != nil {
		b.t.Fatal(err)
	}
	return answers
}

func about(t *testing.T, name string, got map[string]float64, want, tolerance float64) {
	t.Helper()
	if v, ok := got[name]; !ok || math.Abs(v-want) > tolerance {
		t.Errorf("%s is %v (%v), want %v ± %v; all: %v", name, v, ok, want, tolerance, got)
	}
}
