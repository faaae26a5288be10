package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// texts are policies in short: name=text.
func texts(list []bus.StoredPolicy) string {
	var out []string
	for _, s := range list {
		out = append(out, s.Name+"="+s.Text)
	}
	return strings.Join(out, " ")
}

func mustPut(t *testing.T, l *bus.Link, name, text string) uint64 {
	t.Helper()
	revision, err := l.PutPolicy(t.Context(), name, text)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// TestPolicies: what is put is there with its history, also after it was deleted.
func TestPolicies(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.NewBus(t, dir)
		l := b.NewWire().Link(t, "operator", nil)
		check := func(want string) {
			t.Helper()
			list, err := l.Policies(t.Context())
			if got := texts(list); err != nil || got != want {
				t.Errorf("policies: %s, %v, want %s", got, err, want)
			}
		}
		check("")
		first := mustPut(t, l, "chat", "one")
		mustPut(t, l, "_default", "all")
		time.Sleep(time.Minute)
		second := mustPut(t, l, "chat", "two")
		check("_default=all chat=two")
		if list, _ := l.Policies(t.Context()); list[1].Revision != second || time.Since(list[1].At) > time.Second || second <= first {
			t.Errorf("revisions %d, %d; %+v", first, second, list[1])
		}
		if err := l.DeletePolicy(t.Context(), "chat"); err != nil {
			t.Fatal(err)
		}
		check("_default=all")
		history, err := l.PolicyHistory(t.Context(), "chat")
		if got := texts(history); err != nil || got != "chat=one chat=two" || history[0].Revision != first || history[1].Revision != second {
			t.Errorf("history: %+v, %v", history, err)
		}
		if s, err := l.PolicyAt(t.Context(), "chat", first); err != nil || s.Text != "one" {
			t.Errorf("first revision: %+v, %v", s, err)
		}
		_, noRevision := l.PolicyAt(t.Context(), "chat", 999)
		_, ofAnother := l.PolicyAt(t.Context(), "_default", first)
		_, noHistory := l.PolicyHistory(t.Context(), "nobody")
		for name, err := range map[string]error{
			"a revision that is none":       noRevision,
			"a revision of another policy":  ofAnother,
			"the history of none":           noHistory,
			"deleting what is deleted":      l.DeletePolicy(t.Context(), "chat"),
			"deleting what there never was": l.DeletePolicy(t.Context(), "nobody"),
		} {
			if !errors.Is(err, bus.ErrNoPolicy) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"", "a.b", "a b", "a*", ">", "ä", strings.Repeat("a", 65)} {
			if _, err := l.PutPolicy(t.Context(), name, "x"); err == nil {
				t.Errorf("the name %q was taken", name)
			}
		}
		for i := range 100 {
			mustPut(t, l, "often", fmt.Sprint(i))
		}
		if history, err := l.PolicyHistory(t.Context(), "often"); err != nil || len(history) != 64 || history[63].Text != "99" {
			t.Errorf("the history has %d texts, %v", len(history), err)
		}
		l.Close()
		b.Stop()
	})
}

// watched is what a watcher was told.
type watched struct {
	mu    sync.Mutex
	calls []string
}

func (w *watched) told(list []bus.StoredPolicy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, "["+texts(list)+"]")
}

// take waits for what is under way, and gives what was told since the last time.
func (w *watched) take() string {
	time.Sleep(5 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return strings.Join(calls, " | ")
}

// TestWatchPolicies: a watcher gets the whole list at first, after each burst of
// changes, and after each reconnect, also of what it missed while it was away.
func TestWatchPolicies(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.NewBus(t, dir)
		operator, wire := b.NewWire().Link(t, "operator", nil), b.NewWire()
		l := wire.Link(t, "watcher", nil)
		ctx, stop := context.WithCancel(t.Context())
		var w watched
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.WatchPolicies(ctx, w.told); err != nil {
				t.Errorf("the watch ended: %v", err)
			}
		})
		check := func(what, want string) {
			t.Helper()
			if got := w.take(); got != want {
				t.Errorf("%s: told %q, want %q", what, got, want)
			}
		}
		checkLast := func(what, want string) {
			t.Helper()
			if got := w.take(); got != want && !strings.HasSuffix(got, " | "+want) {
				t.Errorf("%s: told %q, want %q at last", what, got, want)
			}
		}
		check("no policies", "[]")
		mustPut(t, operator, "a", "1")
		check("one", "[a=1]")
		for i := range 20 {
			mustPut(t, operator, "a", fmt.Sprint(i))
			mustPut(t, operator, "b", fmt.Sprint(i))
		}
		check("a burst", "[a=19 b=19]")

		wire.Down()
		mustPut(t, operator, "c", "away")
		if err := operator.DeletePolicy(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		check("away", "")
		wire.Up()
		checkLast("back", "[a=19 c=away]")
		mustPut(t, operator, "c", "back")
		check("after it came back", "[a=19 c=back]")

		b.Stop()
		check("the bus is down", "")
		b.Start()
		checkLast("the bus is back", "[a=19 c=back]")
		if err := operator.DeletePolicy(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		check("after the bus came back", "[c=back]")

		stop()
		running.Wait()
		l.Close()
		operator.Close()
		b.Stop()
	})
}

// TestWatchPoliciesLater: a watcher that begins while there is no JetStream says
// nothing until there is.
func TestWatchPoliciesLater(t *testing.T) {
	dir := t.TempDir()
	bustest.Bubble(t, func(t *testing.T) {
		b := bustest.NewBus(t, dir)
		operator, wire := b.NewWire().Link(t, "operator", nil), b.NewWire()
		mustPut(t, operator, "a", "1")
		l := wire.Link(t, "watcher", nil)
		wire.Down()
		ctx, stop := context.WithCancel(t.Context())
		var w watched
		var running sync.WaitGroup
		running.Go(func() { _ = l.WatchPolicies(ctx, w.told) })
		time.Sleep(time.Minute)
		if got := w.take(); got != "" {
			t.Errorf("told %q", got)
		}
		wire.Up()
		if got := w.take(); got != "[a=1]" && !strings.HasSuffix(got, " | [a=1]") {
			t.Errorf("told %q", got)
		}
		stop()
		running.Wait()
		l.Close()
		operator.Close()
		b.Stop()
	})
}
