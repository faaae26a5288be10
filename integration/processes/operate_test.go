package processes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// run runs a tokenbus to its end and gives what it printed, and its status.
func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Logf("tokenbus %s: %s", strings.Join(args, " "), &errs)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// seen is the part of an overview that tests look at.
type seen struct {
	Agents []struct {
		ID        string `json:"id"`
		Condition string `json:"condition"`
		Active    int    `json:"active"`
		Epoch     string `json:"epoch"`
	} `json:"agents"`
	Warnings []struct {
		Code    string `json:"code"`
		Subject string `json:"subject"`
		Text    string `json:"text"`
		Fix     string `json:"fix"`
	} `json:"warnings"`
}

func look(t *testing.T, nats string) (s seen) {
	t.Helper()
	out, code := run(t, "status", "--json", "--nats", nats)
	if err := json.Unmarshal([]byte(out), &s); err != nil || code != 0 {
		t.Fatalf("status: %v, %d: %s", err, code, out)
	}
	return s
}

// fleet is a bus, a gateway with its scheduler, and agents with engines of their own.
type fleet struct {
	t       *testing.T
	nats    string
	url     string
	engines map[string]*process
	urls    map[string]string // of the engines
	agents  map[string]*process
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, engines: make(map[string]*process), urls: make(map[string]string), agents: make(map[string]*process)}
	addr, http := freePort(t), freePort(t)
	f.nats, f.url = "nats://"+addr, "http://"+http
	start(t, "bus", "bus", "--listen", addr, "--data", t.TempDir(), "--no-sync-always")
	start(t, "gateway", "gateway", "--nats", f.nats, "--listen", http, "--log-level", "warn")
	return f
}

// engine starts a simulated engine.
func (f *fleet) engine(name, model string, args ...string) {
	addr := freePort(f.t)
	f.urls[name] = "http://" + addr
	f.engines[name] = start(f.t, "engine of "+name, append([]string{"sim", "--listen", addr, "--model", model}, args...)...)
}

// agent starts an agent beside the engine of its name.
func (f *fleet) agent(name string, args ...string) *process {
	p := start(f.t, "agent "+name, append([]string{"agent", "--nats", f.nats, "--id", name, "--engine-url", f.urls[name], "--capacity", "8"}, args...)...)
	f.agents[name] = p
	return p
}

// condition waits until an agent is as the operator should see it.
func (f *fleet) condition(id, want string) {
	f.t.Helper()
	last := ""
	eventually(f.t, 20*time.Second, id+" is "+want, func() bool {
		for _, a := range look(f.t, f.nats).Agents {
			if a.ID == id {
				last = a.Condition
			}
		}
		return last == want
	})
}

// TestStatusNamesTroubles: a fleet with one of each trouble shows each, with its fix, on
// lines that fit a terminal of 80 columns; and the doctor says that something is broken.
func TestStatusNamesTroubles(t *testing.T) {
	f := newFleet(t)
	for name, model := range map[string]string{"well": "m", "dead": "m", "frozen": "m", "ordered": "m", "lonely": "n"} {
		f.engine(name, model)
		f.agent(name)
	}
	f.urls["loading"] = "http://" + freePort(t)
	f.agent("loading")
	for _, name := range []string{"well", "dead", "frozen", "ordered", "lonely"} {
		f.condition(name, "ready")
	}
	f.engines["dead"].signal(syscall.SIGKILL)
	f.engines["lonely"].signal(syscall.SIGKILL)
	f.agents["frozen"].signal(syscall.SIGSTOP)
	defer f.agents["frozen"].signal(syscall.SIGCONT)
	if out, code := run(t, "drain", "ordered", "--wait", "--reason", "new driver", "--nats", f.nats); code != 0 || !strings.Contains(out, "draining") {
		t.Fatalf("drain: %d: %s", code, out)
	}
	f.condition("dead", "engine down")
	f.condition("loading", "engine down")
	f.condition("frozen", "unreachable")
	f.condition("ordered", "draining")
	want := map[string]string{"dead": "engine_down", "frozen": "agent_unreachable", "ordered": "ordered_draining", "n": "model_down", "loading": "engine_down"}
	for _, w := range look(t, f.nats).Warnings {
		if w.Fix == "" {
			t.Errorf("%s %s has no fix", w.Code, w.Subject)
		}
		if want[w.Subject] == w.Code {
			delete(want, w.Subject)
		}
	}
	if len(want) > 0 {
		t.Errorf("status does not warn of %v", want)
	}
	screen, _ := run(t, "status", "--nats", f.nats)
	for line := range strings.Lines(screen) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	for _, text := range []string{"dead: engine down: the engine refuses connections", "frozen: silent for", "(new driver)", "tokenbus resume ordered", "n: no agent that serves it is ready"} {
		if !strings.Contains(screen, text) {
			t.Errorf("the screen lacks %q:\n%s", text, screen)
		}
	}
	t.Logf("the screen:\n%s", screen)
	if out, code := run(t, "doctor", "--nats", f.nats); code != 2 || !strings.Contains(out, "ok      engine of well: model m answers") {
		t.Errorf("the doctor ends with %d:\n%s", code, out)
	}
	if out, code := run(t, "doctor", "--no-bus", "--engine", f.urls["well"]); code != 0 {
		t.Errorf("the doctor of an engine ends with %d:\n%s", code, out)
	}
	if out, code := run(t, "doctor", "--nats", "nats://"+freePort(t), "--timeout", "1s"); code != 2 || !strings.Contains(out, "fix:") {
		t.Errorf("the doctor of no bus ends with %d:\n%s", code, out)
	}
}

// TestRestartUnderLoad: an agent that is told to stop while requests come hurts none of
// them, and gets new ones when it is back; what it counted survives (acceptance 27, 36,
// 45).
func TestRestartUnderLoad(t *testing.T) {
	f := newFleet(t)
	for _, name := range []string{"a", "b"} {
		f.engine(name, "m", "--token-interval", "10ms")
		f.agent(name)
		f.condition(name, "ready")
	}
	eventually(t, 10*time.Second, "the gateway is ready", func() bool { return status(f.url+"/ready") == http.StatusOK })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				stream := n%2 == 0
				if o := ask(t.Context(), f.url, stream, 20, fmt.Sprintf("%d-%d", i, n)); !o.ok(stream) {
					t.Errorf("a request failed: %d %v %s", o.status, o.err, tail(o.body))
				}
			}
		})
	}
	served := func() int { return finished(t, f.urls["a"]) }
	eventually(t, 10*time.Second, "the agent serves", func() bool { return served() > 10 })
	before := time.Now()
	f.agents["a"].signal(syscall.SIGTERM)
	if err := f.agents["a"].wait(t, 20*time.Second); err != nil {
		t.Errorf("the agent ends with %v", err)
	}
	t.Logf("drained in %v", time.Since(before).Round(time.Millisecond))
	n := served()
	f.agent("a")
	eventually(t, 10*time.Second, "the agent serves again", func() bool { return served() > n+10 })
	close(stop)
	wg.Wait()
	var c struct {
		Counters struct{ Succeeded int }
	}
	eventually(t, 10*time.Second, "the counters hold both lives", func() bool {
		out, code := run(t, "agents", "a", "--json", "--nats", f.nats)
		return code == 0 && json.Unmarshal([]byte(out), &c) == nil && c.Counters.Succeeded == served()
	})
}

// finished is the number of requests that an engine has finished.
func finished(t *testing.T, url string) int {
	t.Helper()
	var r record
	if err := json.Unmarshal([]byte(get(url+"/sim/record")), &r); err != nil {
		t.Fatal(err)
	}
	return r.Finished
}

// TestTwoAgentsOneID: exactly one of two processes with one id serves; the other ends
// and names it (acceptance 5).
func TestTwoAgentsOneID(t *testing.T) {
	f := newFleet(t)
	f.engine("a", "m")
	first := f.agent("a", "--machine", "rack-7")
	f.condition("a", "ready")
	second := f.agent("a")
	if err := second.wait(t, 10*time.Second); err == nil {
		t.Error("the newcomer ends without an error")
	}
	if said := second.log.String(); !strings.Contains(said, "rack-7") || !strings.Contains(said, "--id") {
		t.Errorf("the newcomer says %s", said)
	}
	select {
	case <-first.done:
		t.Error("the holder ended")
	default:
	}
	if o := ask(t.Context(), f.url, true, 5, "x"); !o.ok(true) {
		t.Errorf("a request ended with %d %v %s", o.status, o.err, o.body)
	}
	first.signal(syscall.SIGKILL)
	third := f.agent("a")
	eventually(t, 15*time.Second, "a process serves after the holder was killed", func() bool { return ask(t.Context(), f.url, true, 5, "y").ok(true) })
	if s := look(t, f.nats); len(s.Agents) != 1 {
		t.Errorf("the agents are %+v", s.Agents)
	}
	select {
	case <-third.done:
		t.Error("the process that came after the holder ended")
	default:
	}
}

// TestFrozenForLong: while an agent is frozen for 40 s no new request waits over 2 s,
// and it is back at work by itself (acceptance 31, 34).
func TestFrozenForLong(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	f := newFleet(t)
	for _, name := range []string{"a", "b"} {
		f.engine(name, "m")
		f.agent(name)
		f.condition(name, "ready")
	}
	froze := time.Now()
	f.agents["a"].signal(syscall.SIGSTOP)
	defer f.agents["a"].signal(syscall.SIGCONT)
	var longest time.Duration
	var slow []time.Duration
	for time.Since(froze) < 40*time.Second {
		began := time.Now()
		if o := ask(t.Context(), f.url, false, 1, "z"); !o.ok(false) {
			t.Errorf("after %v a request failed: %d %v %s", time.Since(froze), o.status, o.err, o.body)
		}
		took := time.Since(began)
		if longest = max(longest, took); took > 500*time.Millisecond {
			slow = append(slow, time.Since(froze).Round(time.Millisecond))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if longest > 2*time.Second {
		t.Errorf("a request waited %v", longest)
	}
	n := finished(t, f.urls["a"])
	f.agents["a"].signal(syscall.SIGCONT)
	woke := time.Now()
	eventually(t, 15*time.Second, "the agent works again", func() bool {
		ask(t.Context(), f.url, false, 1, "z")
		return finished(t, f.urls["a"]) > n
	})
	slices.Sort(slow)
	t.Logf("longest request %v, those over 0.5 s ended %v after the freeze; work again after %v", longest.Round(time.Millisecond), slow, time.Since(woke).Round(time.Millisecond))
}
