package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// What is not on the list never reaches an engine: 404, or 405, in OpenAI's shape.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	before := fmt.Sprint(s.sim.Counts().Hits) // nothing but the agent's probes
	for _, path := range []string{
		"/invocations", "/sleep", "/wake_up", "/is_sleeping", "/pause", "/resume", "/is_paused", "/metrics", "/docs", "/redoc", "/openapi.json",
		"/load", "/ping", "/server_info", "/collective_rpc", "/reset_prefix_cache", "/reset_mm_cache", "/start_profile", "/stop_profile",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/sim/record", "/sim/faults", "/", "/v1", "/v1/", "/v1/nowhere", "/v1/chat", "/v1/chat/completions/",
		"/v1/chat/completions/x", "//v1/chat/completions", "/v1//chat/completions", "/v1/chat%2Fcompletions", "/v1%2Fchat/completions", "/V1/chat/completions",
		"/v1/../sleep", "/v1/chat/../../sleep", "/v1/chat/completions/../../../sleep", "/v1/%2e%2e/sleep", "/v1/models/../../sleep", "/%2fsleep",
		"/v1/chat/completions;x", "/v1/chat/completions%00", "/v1/chat/completions%20", "/v1/./chat/completions", "/v1/responses/resp_1",
	} {
		for _, method := range []string{"POST", "GET"} {
			a := s.raw(request(method, path))
			status := 404
			if method == "POST" && strings.HasPrefix(path, "/v1/models/") {
				status = 405
			}
			if e := isError(t, a, status); a.status == status && e.Error.Type != "invalid_request_error" {
				t.Errorf("%s %s: %s", method, path, a.body)
			}
		}
	}
	if after := fmt.Sprint(s.sim.Counts().Hits); strip(after) != strip(before) {
		t.Errorf("the engine was hit: %s, before %s", after, before)
	}
	if n := s.sim.Counts().Received; n != 0 {
		t.Errorf("the engine saw %d requests", n)
	}
}

func request(method, target string) string {
	body := chat(false, "")
	return method + " " + target + " HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: " + itoa(len(body)) + "\r\n\r\n" + body
}

// strip takes the agent's own probes from a text of hits.
func strip(hits string) string {
	var kept []string
	for f := range strings.FieldsSeq(strings.Trim(hits, "map[]")) {
		if !strings.HasPrefix(f, "/health:") && !strings.HasPrefix(f, "/v1/models:") && !strings.HasPrefix(f, "/version:") {
			kept = append(kept, f)
		}
	}
	return strings.Join(kept, " ")
}

// A request line may name the whole URL; it is the same list.
func TestRoutesAbsoluteForm(t *testing.T) {
	t.Parallel()
	s := start(t)
	isError(t, s.raw(request("POST", "http://127.0.0.1:8000/sleep")), 404)
	if a := s.raw(request("POST", "http://elsewhere.example/v1/chat/completions")); a.status != 200 {
		t.Errorf("status %d: %s", a.status, a.body)
	}
	if e := s.last(); e.Path != "/v1/chat/completions" {
		t.Errorf("the engine got %s", e.Path)
	}
}

// The methods of a route are its own.
func TestRoutesMethods(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/embeddings", "/rerank", "/tokenize", "/v1/audio/transcriptions"} {
		for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "TRACE"} {
			if e := isError(t, s.raw(request(method, path)), 405); e.Error.Code != "method_not_allowed" {
				t.Errorf("%s %s: %+v", method, path, e)
			}
		}
		if a := s.raw(request("OPTIONS", path)); a.status != 204 || !strings.Contains(a.header.Get("Allow"), "POST") {
			t.Errorf("OPTIONS %s: status %d, %v", path, a.status, a.header)
		}
	}
	for _, path := range []string{"/v1/models", "/v1/models/" + model, "/health", "/ready"} {
		isError(t, s.raw(request("POST", path)), 405)
	}
	if n := s.sim.Counts().Received; n != 0 {
		t.Errorf("the engine saw %d requests", n)
	}
}

// Every route of the list reaches the engine on the same path.
func TestRoutesAllowed(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := `{"model":"` + model + `",`
	for path, body := range map[string]string{
		"/v1/chat/completions": chat(false, ""), "/v1/completions": m + `"prompt":"x"}`, "/v1/responses": m + `"input":"x"}`,
		"/v1/messages": chat(false, `,"max_tokens":4`), "/v1/messages/count_tokens": chat(false, ""), "/v1/embeddings": m + `"input":"x"}`,
		"/v1/rerank": m + `"query":"x","documents":["y"]}`, "/v2/rerank": m + `"query":"x","documents":["y"]}`, "/rerank": m + `"query":"x","documents":["y"]}`,
		"/v1/score": m + `"text_1":"x","text_2":"y"}`, "/score": m + `"text_1":"x","text_2":"y"}`, "/pooling": m + `"input":"x"}`,
		"/classify": m + `"input":"x"}`, "/tokenize": m + `"prompt":"x"}`, "/detokenize": m + `"tokens":[1]}`,
	} {
		if a := s.post(path, body); a.status != http.StatusOK {
			t.Errorf("%s: status %d: %.200s", path, a.status, a.body)
		}
		if n := s.sim.Counts().Hits[path]; n != 1 {
			t.Errorf("%s: %d hits", path, n)
		}
	}
}
