package integration

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/openai/openai-go/v3"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// sdkErrors calls both SDKs and checks the typed error that each raises.
func sdkErrors(t *testing.T, s *system, name string, status int, code string) {
	t.Helper()
	sdkOpenAIError(t, s, name, status, code)
	client := s.anthropic()
	params := messageParams("hello")
	params.Model = anthropic.Model(name)
	_, err := client.Messages.New(t.Context(), params)
	var e *anthropic.Error
	if !errors.As(err, &e) || e.StatusCode != status || !strings.Contains(e.RawJSON(), `"type":"error"`) {
		t.Errorf("anthropic: %v, want a typed error with status %d in Anthropic's shape", err, status)
	}
	stream := client.Messages.NewStreaming(t.Context(), params)
	for stream.Next() {
		t.Errorf("anthropic: an event of a stream that failed: %s", stream.Current().RawJSON())
	}
	if err := stream.Err(); !errors.As(err, &e) || e.StatusCode != status {
		t.Errorf("anthropic stream: %v, want a typed error with status %d", err, status)
	}
}

func sdkOpenAIError(t *testing.T, s *system, name string, status int, code string) {
	t.Helper()
	client := s.openai()
	params := chatParams("hello")
	params.Model = name
	whole := make(chan error, 1)
	go func() {
		_, err := client.Chat.Completions.New(t.Context(), params)
		whole <- err
	}()
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	for stream.Next() {
		t.Errorf("openai: an event of a stream that failed: %s", stream.Current().RawJSON())
	}
	for what, err := range map[string]error{"whole": <-whole, "stream": stream.Err()} {
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != status || e.Message == "" || e.Code != code {
			t.Errorf("openai, %s: %v, want a typed error with status %d and code %s", what, err, status, code)
			continue
		}
		if h := e.Response.Header; (status == 429 || status == 503) && h.Get("Retry-After") == "" {
			t.Errorf("openai, %s: status %d without Retry-After", what, status)
		}
	}
}

func TestSDKModelNotFound(t *testing.T) {
	t.Parallel()
	s := start(t)
	sdkErrors(t, s, "no-such/model", http.StatusNotFound, "model_not_found")
	_, err := ptr(s.openai()).Models.Get(t.Context(), "no-such/model")
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusNotFound || e.Code != "model_not_found" {
		t.Errorf("models.retrieve: %v", err)
	}
	if n := s.sim.Counts().Received; n != 0 {
		t.Errorf("the engine saw %d requests", n)
	}
}

func TestSDKBadRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	sdkErrors(t, s, strings.Repeat("m", 201), http.StatusBadRequest, "bad_request")
	// The engine's own 400, with vLLM's numeric code.
	client := s.openai()
	params := chatParams("hello")
	params.MaxTokens = openai.Int(1 << 40)
	_, err := client.Chat.Completions.New(t.Context(), params)
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != http.StatusBadRequest || !strings.Contains(e.Message, "maximum context length") {
		t.Errorf("engine's 400: %v", err)
	}
}

// Full, with no room to wait, is 429.
func TestSDKFull(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.agent.Capacity, o.schedule.QueueDepth = 1, 0 })
	s.inject(sim.Fault{Kind: sim.HangBeforeHeaders, Name: "hang"})
	leave := s.leaver("/v1/chat/completions", chat(false, ""), "X-Sim-Script", "hang")
	eventually(t, 5*time.Second, "the slot is taken", func() bool { return s.agents[0].Active() == 1 })
	sdkErrors(t, s, model, http.StatusTooManyRequests, "queue_full")
	leave()
}

// A model whose engine is down is 503.
func TestSDKNoAgents(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.stopEngine()
	sdkErrors(t, s, model, http.StatusServiceUnavailable, "no_agents")
}

func ptr[T any](v T) *T { return &v }
