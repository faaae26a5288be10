package processes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// load asks both gateways without a pause until stopped.
type load struct {
	wg   sync.WaitGroup
	stop context.CancelFunc

	mu       sync.Mutex
	outcomes map[string]outcome // by marker
}

func (d *deployment) load(t *testing.T, clients, tokens int) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop, outcomes: make(map[string]outcome)}
	for c := range clients {
		l.wg.Go(func() {
			for n := 0; ctx.Err() == nil && n < 1000; n++ {
				marker := fmt.Sprintf("client %d request %d.", c, n)
				o := ask(t.Context(), d.urls[c%2], c%4 < 2, tokens, marker)
				o.gateway = c % 2
				l.mu.Lock()
				l.outcomes[marker] = o
				l.mu.Unlock()
				if o.err != nil {
					return // the gateway is gone
				}
			}
		})
	}
	return l
}

func (l *load) end() { l.stop(); l.wg.Wait() }

// await waits until n more requests have ended.
func (l *load) await(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.outcomes)
	}
	n += count()
	eventually(t, 30*time.Second, fmt.Sprintf("%d requests have ended", n), func() bool { return count() >= n })
}

// await waits until the engines work on n requests.
func (d *deployment) await(t *testing.T, n int) {
	t.Helper()
	eventually(t, 20*time.Second, fmt.Sprintf("%d requests run", n), func() bool {
		sum := 0
		for i := range d.engines {
			sum += d.record(t, i).InFlight
		}
		return sum >= n
	})
}

// TestSchedulerSIGKILL kills one of two schedulers under load: nothing fails, and
// nothing runs twice.
func TestSchedulerSIGKILL(t *testing.T) {
	d := deploy(t)
	l := d.load(t, 24, 10)
	l.await(t, 50)
	d.schedulers[0].signal(syscall.SIGKILL)
	l.await(t, 200)
	l.end()
	for marker, o := range l.outcomes {
		if !o.ok(strings.Contains(o.body, "data:")) {
			t.Errorf("%s: status %d, %v: %.200s", marker, o.status, o.err, o.body)
		}
	}
	d.settle(t, 0, 1, 2)
	runs := make(map[string]int)
	for i := range d.engines {
		for _, r := range d.record(t, i).Requests {
			if r.Outcome == "finished" {
				body := string(r.Body)
				if at := strings.Index(body, "client "); at >= 0 {
					runs[body[at:at+strings.IndexByte(body[at:], '.')+1]]++
				}
			}
		}
	}
	for marker, n := range runs {
		if n > 1 {
			t.Errorf("%s ran to its end %d times", marker, n)
		}
	}
}

// TestGatewaySIGKILL kills one of two gateways under load: nothing on the other
// fails, and what the dead one had is cancelled at the engines within a second
// (invariant 8).
func TestGatewaySIGKILL(t *testing.T) {
	d := deploy(t)
	l := d.load(t, 16, 10)
	// Long streams on the gateway that dies.
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { ask(t.Context(), d.urls[0], true, 20_000, "long") })
	}
	l.await(t, 50)
	d.await(t, 6)
	d.gateways[0].signal(syscall.SIGKILL)
	died := time.Now()
	wg.Wait()
	eventually(t, 5*time.Second, "the long streams are aborted", func() bool {
		n := 0
		for i := range d.engines {
			n += d.record(t, i).Aborted
		}
		return n >= 6
	})
	if took := time.Since(died); took > 1500*time.Millisecond { // with the time of asking
		t.Errorf("invariant 8: the engines went on for %v", took)
	}
	l.await(t, 50)
	l.end()
	for marker, o := range l.outcomes {
		if o.gateway == 1 && !o.ok(strings.Contains(o.body, "data:")) {
			t.Errorf("%s on the gateway that lives: status %d, %v: %.200s", marker, o.status, o.err, o.body)
		}
	}
	d.settle(t, 0, 1, 2)
}

// TestBusRestart restarts the NATS server in the middle of 100 streams: every
// stream ends complete.
func TestBusRestart(t *testing.T) {
	d := deploy(t)
	const n = 100
	outcomes := make([]outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { outcomes[i] = ask(t.Context(), d.urls[i%2], true, 250, "restart") })
	}
	d.await(t, n)
	d.bus.signal(syscall.SIGKILL)
	_ = d.bus.wait(t, 5*time.Second)
	d.bus = start(t, "bus again", d.busArgs...)
	wg.Wait()
	for i, o := range outcomes {
		if !o.ok(true) {
			t.Errorf("invariant 6: stream %d: status %d, %v, %d bytes: %.300s", i, o.status, o.err, len(o.body), tail(o.body))
		}
		if got := strings.Count(o.body, `"delta":{"content":"`); got != 251 { // 250 tokens and the finish chunk
			t.Errorf("invariant 6: stream %d has %d content chunks", i, got)
		}
	}
	d.settle(t, 0, 1, 2)
	for _, u := range d.urls {
		eventually(t, 5*time.Second, "gateway works", func() bool { return ask(t.Context(), u, false, 1, "after").ok(false) })
	}
}

func tail(s string) string { return s[max(0, len(s)-300):] }

// TestAgentFrozen stops an agent with SIGSTOP: no new request waits more than 2 s
// on it, here with as much again for a slow machine; it works again by itself.
func TestAgentFrozen(t *testing.T) {
	d := deploy(t)
	d.agents[0].signal(syscall.SIGSTOP)
	for i := range 20 {
		began := time.Now()
		o := ask(t.Context(), d.urls[i%2], i%4 < 2, 3, "frozen")
		if took := time.Since(began); !o.ok(i%4 < 2) || took > 4*time.Second {
			t.Errorf("request %d: status %d after %v: %v %.200s", i, o.status, took, o.err, o.body)
		}
	}
	d.agents[0].signal(syscall.SIGCONT)
	eventually(t, 10*time.Second, "the agent works again", func() bool {
		before := d.record(t, 0).Finished
		ask(t.Context(), d.urls[0], false, 1, "thawed")
		return d.record(t, 0).Finished > before
	})
	d.settle(t, 0, 1, 2)
}

// TestDrain stops every process with SIGTERM while it works: what is under way
// finishes, and each exits with 0.
func TestDrain(t *testing.T) {
	d := deploy(t)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if o := ask(t.Context(), d.urls[i%2], i%3 != 0, 100, "drain"); !o.ok(i%3 != 0) {
				t.Errorf("request %d: status %d, %v: %.300s", i, o.status, o.err, tail(o.body))
			}
		})
	}
	d.await(t, 12)
	stopping := []*process{d.schedulers[0], d.agents[0], d.gateways[0]}
	for _, p := range stopping {
		p.signal(syscall.SIGTERM)
	}
	wg.Wait()
	for _, p := range stopping {
		if err := p.wait(t, 15*time.Second); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	if o := ask(t.Context(), d.urls[1], false, 1, "after"); o.status != http.StatusOK {
		t.Errorf("after the drain: %d %s", o.status, o.body)
	}
	d.settle(t, 1, 2)
}
