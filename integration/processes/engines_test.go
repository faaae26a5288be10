package processes

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"
)

// post sends an empty request and gives its status.
func post(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Post(url, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestEngineSleeps: an engine that is put to sleep gets no more requests, is named to
// the operator, and serves again by itself when it is woken.
func TestEngineSleeps(t *testing.T) {
	f := newFleet(t)
	for _, name := range []string{"alone", "other"} { // equals are taken by their ids
		f.engine(name, "m")
		f.agent(name, "--metrics-interval", "200ms")
		f.condition(name, "ready")
	}
	if code := post(t, f.urls["alone"]+"/sleep?level=1"); code != 200 {
		t.Fatalf("/sleep answers %d", code)
	}
	f.condition("alone", "engine asleep")
	before := finished(t, f.urls["alone"])
	for range 20 {
		if o := ask(t.Context(), f.url, false, 1, ""); !o.ok(false) {
			t.Fatalf("a request beside a sleeping engine: %+v", o)
		}
	}
	if n := finished(t, f.urls["alone"]); n != before {
		t.Errorf("%d requests went to an engine that sleeps", n-before)
	}
	found := false
	for _, w := range look(t, f.nats).Warnings {
		found = found || w.Code == "engine_asleep" && w.Subject == "alone" && strings.Contains(w.Fix, "/wake_up")
	}
	if !found {
		t.Error("status does not name the engine that sleeps")
	}
	post(t, f.urls["alone"]+"/wake_up")
	f.condition("alone", "ready")
	eventually(t, 10*time.Second, "it serves again", func() bool {
		ask(t.Context(), f.url, false, 1, "")
		return finished(t, f.urls["alone"]) > before
	})
}

// TestEngineReplaced: behind the URL of an engine that went down another kind comes up;
// the agent finds out, and calls it as its kind wants to be called.
func TestEngineReplaced(t *testing.T) {
	f := newFleet(t)
	f.engine("box", "m")
	f.agent("box", "--probe-interval", "200ms")
	f.condition("box", "ready")
	shown := func() string {
		out, _ := run(t, "agents", "box", "--nats", f.nats)
		return out
	}
	if out := shown(); !strings.Contains(out, "vllm 0.") {
		t.Fatalf("tokenbus agents box prints\n%s", out)
	}
	f.engines["box"].signal(syscall.SIGKILL)
	f.condition("box", "engine down")
	// Infinity has no /v1 in its routes.
	var paths []string
	other := &httptest.Server{Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/health":
		case "/models":
			fmt.Fprint(w, `{"data":[{"id":"e","owned_by":"infinity"}]}`)
		case "/embeddings":
			paths = append(paths, r.URL.Path)
			fmt.Fprint(w, `{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})}}
	var err error
	eventually(t, 5*time.Second, "the port is free", func() bool {
		other.Listener, err = net.Listen("tcp", strings.TrimPrefix(f.urls["box"], "http://"))
		return err == nil
	})
	other.Start()
	defer other.Close()
	f.condition("box", "ready")
	if out := shown(); !strings.Contains(out, "infinity") {
		t.Errorf("tokenbus agents box prints\n%s", out)
	}
	resp, err := http.Post(f.url+"/v1/embeddings", "application/json", strings.NewReader(`{"model":"e","input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || len(paths) != 1 {
		t.Errorf("status %d, and the engine was called at %v", resp.StatusCode, paths)
	}
	// It serves no chat, so no chat goes there.
	if o := ask(t.Context(), f.url, false, 1, ""); o.ok(false) {
		t.Errorf("a chat was answered: %+v", o)
	}
	if out, code := run(t, "doctor", "--no-bus", "--engine", f.urls["box"]); code != 0 || !strings.Contains(out, "infinity") {
		t.Errorf("the doctor ends with %d:\n%s", code, out)
	}
}

// TestDoctorOfEngine: before there is an agent, the doctor tells of an engine what an
// operator has to know, with a key and without.
func TestDoctorOfEngine(t *testing.T) {
	f := newFleet(t)
	f.engine("plain", "m", "--no-prefix-cache", "--api-key", "secret-of-the-engine")
	eventually(t, 10*time.Second, "the engine answers", func() bool { return status(f.urls["plain"]+"/health") == 200 })
	if out, code := run(t, "doctor", "--no-bus", "--engine", f.urls["plain"]); code != 2 || !strings.Contains(out, "--engine-key-file") {
		t.Errorf("without a key, the doctor ends with %d:\n%s", code, out)
	}
	out, code := run(t, "doctor", "--no-bus", "--engine", f.urls["plain"], "--engine-key", "secret-of-the-engine")
	if code != 1 || !strings.Contains(out, "prefix caching is off") || !strings.Contains(out, "--enable-prefix-caching") || strings.Contains(out, "secret-of") {
		t.Errorf("with a key, the doctor ends with %d:\n%s", code, out)
	}
	if out, code := run(t, "doctor", "--no-bus", "--engine", f.urls["plain"], "--engine-kind", "vlm"); code == 0 || strings.Contains(out, "ok") {
		t.Errorf("with a kind that does not exist, the doctor ends with %d:\n%s", code, out)
	}
}
