package integration

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

type cards struct {
	Object string           `json:"object"`
	Data   []map[string]any `json:"data"`
}

func parse[T any](t testing.TB, b []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%v in %.200s", err, b)
	}
	return v
}

// The list comes from what agents say, with all that the engine says of a model.
func TestModels(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) {
		o.sim.Models = []string{model, "plain"}
		o.sim.Adapters = map[string]string{"team/lora v2": model}
	})
	resp, err := http.Get(s.engine.URL + "/v1/models")
	check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	engine := parse[cards](t, b)
	a := s.get("/v1/models")
	got := parse[cards](t, a.body)
	if a.status != 200 || got.Object != "list" || len(got.Data) != 3 || a.header.Get("Content-Type") != jsonType {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	have := make(map[any]map[string]any)
	for _, c := range got.Data {
		have[c["id"]] = c
	}
	for _, want := range engine.Data {
		for field, v := range want {
			if !reflect.DeepEqual(have[want["id"]][field], v) {
				t.Errorf("%s: field %s is %v, the engine says %v", want["id"], field, have[want["id"]][field], v)
			}
		}
	}
	for path, id := range map[string]string{
		"org/model-1.5": model, "org%2Fmodel-1.5": model, "org%2fmodel%2D1.5": model, "plain": "plain", "team/lora%20v2": "team/lora v2", "team%2Flora%20v2": "team/lora v2",
	} {
		a := s.get("/v1/models/" + path)
		if card := parse[map[string]any](t, a.body); a.status != 200 || !reflect.DeepEqual(card, have[id]) {
			t.Errorf("%s: status %d: %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"none", "org", "org%252Fmodel-1.5", "ORG/model-1.5", "plain/"} {
		if e := isError(t, s.get("/v1/models/"+path), 404); e.Error.Code != "model_not_found" || e.param() != "model" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	if a := s.post("/v1/chat/completions", strings.Replace(chat(false, ""), model, "team/lora v2", 1)); a.status != 200 {
		t.Errorf("adapter: status %d: %s", a.status, a.body)
	}
}

// A model id may hold anything.
func TestModelNames(t *testing.T) {
	t.Parallel()
	names := []string{model, "a b", `q"uote\\`, "dots.and.*.>", "日本/🙂", "a=2E", "=", "%2F", "tb.req.x.chat", "UPPER", "upper", strings.Repeat("x", 200)}
	s := start(t, func(o *options) { o.sim.Models = names })
	for _, name := range names {
		quoted, err := json.Marshal(name)
		check(t, err)
		a := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"model":`+string(quoted)+`}`)
		if a.status != 200 || s.last().Model != name {
			t.Errorf("%q: status %d: %.200s", name, a.status, a.body)
		}
		if a := s.get("/v1/models/" + url.PathEscape(name)); a.status != 200 {
			t.Errorf("card of %q: status %d: %s", name, a.status, a.body)
		}
		// As a bare request that names it in the subject only.
		m := s.ask(s.bare(), bus.RequestSubject(name, bus.Chat), `{"messages":[{"role":"user","content":"hi"}]}`, nil).next()
		if m.Header.Get("Tb-Status") != "200" || s.last().Model != name {
			t.Errorf("bare %q: %v", name, m.Header)
		}
	}
}

// stopEngine takes the engine off the network and waits until that shows.
func (s *system) stopEngine() {
	s.t.Helper()
	_ = s.engine.Listener.Close()
	s.engine.CloseClientConnections()
	eventually(s.t, 3*time.Second, "the list drops the model (design.md §8)", func() bool { return len(s.gateway.Models()) == 0 })
}

// A model whose engine is gone is not listed, and a request for it is refused as
// one that is known.
func TestModelsDropped(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stopEngine()
	if a := s.get("/v1/models"); a.status != 200 || len(parse[cards](t, a.body).Data) != 0 {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	isError(t, s.get("/v1/models/"+model), 404)
	a := s.post("/v1/chat/completions", chat(false, ""))
	if e := isError(t, a, 503); e.Error.Code != "no_agents" || a.header.Get("Retry-After") == "" || a.header.Get("X-Tokenbus-Reason") != "no_agents" {
		t.Errorf("%+v, headers %v", e, a.header)
	}
	if a := s.get("/ready"); a.status != 200 {
		t.Errorf("/ready: status %d: %s", a.status, a.body)
	}
}

// Without a scheduler the process lives and is not ready.
func TestReadyWithoutScheduler(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.noScheduler = true })
	eventually(t, 5*time.Second, "models are listed", func() bool { return len(s.gateway.Models()) > 0 })
	if a := s.get("/health"); a.status != 200 {
		t.Errorf("/health: status %d: %s", a.status, a.body)
	}
	if a := s.get("/ready"); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("/ready: status %d: %s", a.status, a.body)
	}
	if a := s.get("/v1/models"); len(parse[cards](t, a.body).Data) != 1 {
		t.Errorf("/v1/models: %s", a.body)
	}
	sdkOpenAIError(t, s, model, http.StatusServiceUnavailable, "no_scheduler")
}

func TestReady(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/health", "/ready"} {
		if a := s.get(path); a.status != 200 {
			t.Errorf("%s: status %d: %s", path, a.status, a.body)
		}
	}
}
