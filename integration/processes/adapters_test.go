package processes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

type adapterResults struct {
	Results []struct {
		Agent string `json:"agent"`
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	} `json:"results"`
}

// adapter runs tokenbus adapter and gives the agents that did it, and what the others
// say.
func (f *fleet) adapter(args ...string) (done []string, failed map[string]string, code int) {
	f.t.Helper()
	out, code := run(f.t, append([]string{"adapter", "--nats", f.nats, "--json"}, args...)...)
	var r adapterResults
	if err := json.Unmarshal([]byte(out), &r); err != nil && code != 1 {
		f.t.Fatalf("adapter %v: %v\n%s", args, err, out)
	}
	failed = make(map[string]string)
	for _, a := range r.Results {
		if a.OK {
			done = append(done, a.Agent)
		} else {
			failed[a.Agent] = a.Error
		}
	}
	return done, failed, code
}

// complete asks a model for so many tokens and gives the status and the agent.
func (f *fleet) complete(model string, tokens int) (code int, agent string) {
	f.t.Helper()
	resp, err := http.Post(f.url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"model":%q,"prompt":"x","max_tokens":%d}`, model, tokens)))
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("X-Tokenbus-Agent")
}

// TestAdapters: an adapter is loaded at all agents of a model with a result from each;
// requests for it go only where it is; an engine that lost it gets it again; it leaves
// without hurting a request.
func TestAdapters(t *testing.T) {
	f := newFleet(t)
	for name, model := range map[string]string{"a": "m", "b": "m", "c": "m", "other": "n"} {
		f.engine(name, model)
		f.agent(name, "--probe-interval", "200ms")
	}
	for _, name := range []string{"a", "b", "c", "other"} {
		f.condition(name, "ready")
	}
	// At c the engine says that it did, and did not.
	fault := `{"kind":"fail_status","path":"/v1/load_lora_adapter","status":200,"body":"Success"}`
	resp, err := http.Post(f.urls["c"]+"/sim/faults", "application/json", strings.NewReader(fault))
	if err != nil || resp.StatusCode >= 300 {
		t.Fatal(err, resp)
	}
	_ = resp.Body.Close()
	done, failed, code := f.adapter("load", "sql", "--path", "/adapters/sql", "--model", "m")
	if strings.Join(done, " ") != "a b" || len(failed) != 1 || failed["c"] == "" || code != 1 {
		t.Fatalf("load: done at %v, failed at %v, status %d", done, failed, code)
	}
	serves := func() map[string]int {
		at := make(map[string]int)
		for range 20 {
			code, agent := f.complete("sql", 1)
			if code != http.StatusOK {
				t.Fatalf("a request for the adapter: status %d", code)
			}
			at[agent]++
		}
		return at
	}
	if at := serves(); at["a"]+at["b"] != 20 {
		t.Errorf("requests for the adapter went to %v", at)
	}
	if out, _ := run(t, "adapter", "list", "--nats", f.nats); !strings.Contains(out, "sql      m      a, b    none        /adapters/sql") {
		t.Errorf("adapter list prints\n%s", out)
	}
	// The engine of a starts anew and has forgotten it.
	f.engines["a"].signal(syscall.SIGKILL)
	f.condition("a", "engine down")
	f.engines["a"] = start(t, "engine of a", "sim", "--listen", strings.TrimPrefix(f.urls["a"], "http://"), "--model", "m")
	eventually(t, 20*time.Second, "a has its adapter again", func() bool {
		out, _ := run(t, "agents", "a", "--nats", f.nats)
		return strings.Contains(out, "sql, adapter of m")
	})
	// It leaves behind the requests that use it.
	slow := make(chan int)
	go func() {
		code, _ := f.complete("sql", 60) // 1.2 s
		slow <- code
	}()
	eventually(t, 5*time.Second, "a request uses it", func() bool {
		out, _ := run(t, "ps", "--nats", f.nats, "--json")
		return strings.Contains(out, `"sql"`)
	})
	done, failed, code = f.adapter("unload", "sql")
	if strings.Join(done, " ") != "a b" || len(failed) != 0 || code != 0 {
		t.Errorf("unload: done at %v, failed at %v, status %d", done, failed, code)
	}
	if code := <-slow; code != http.StatusOK {
		t.Errorf("a request that used the adapter when it was unloaded ended with %d", code)
	}
	if code, _ := f.complete("sql", 1); code != http.StatusServiceUnavailable {
		t.Errorf("a request for an adapter that is gone: status %d", code)
	}
	if _, _, code = f.adapter("unload", "sql"); code != 1 {
		t.Errorf("unload of what nobody has ends with %d", code)
	}
	for _, args := range [][]string{
		{"load", "sql", "--path", "/x"}, {"load", "--path", "/x", "--model", "m"}, {"unload", "sql", "--path", "/x"}, {"load", "sql", "--path", "/x", "--model", "none"},
	} {
		if out, code := run(t, append([]string{"adapter", "--nats", f.nats}, args...)...); code == 0 {
			t.Errorf("adapter %v succeeds: %s", args, out)
		}
	}
}
