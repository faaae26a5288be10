package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

// pages is an engine that answers some paths; all others are a 404.
type pages map[string]string

func (p pages) Get(_ context.Context, path string) (int, []byte, error) {
	body, ok := p[path]
	if !ok {
		return 404, nil, nil
	}
	status := 200
	if n, err := fmt.Sscanf(body, "status %d", &status); n == 1 && err == nil {
		return status, nil, nil
	}
	return status, []byte(body), nil
}

func listing(owner string) string {
	return `{"object":"list","data":[{"id":"m","object":"model","owned_by":"` + owner + `","max_model_len":4096}]}`
}

// TestKinds: each kind is found by itself, and what it says of itself is read.
func TestKinds(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		pages pages
		kind  *Kind
		info  Info
		api   bus.API // that it serves
		not   bus.API // that it does not, "" if any is tried
	}{
		"vllm":             {pages{"/v1/models": listing("vllm"), "/health": "", "/version": `{"version":"0.12.0"}`}, VLLM, Info{Version: "0.12.0"}, bus.Chat, ""},
		"vllm that sleeps": {pages{"/v1/models": listing("vllm"), "/health": "", "/version": `{"version":"0.12.0"}`, "/is_sleeping": `{"is_sleeping":true}`}, VLLM, Info{Version: "0.12.0", Asleep: true}, bus.Chat, ""},
		"sglang": {pages{"/v1/models": listing("sglang"), "/health": "", "/get_server_info": `{"version":"0.5.3","max_running_requests":48,"max_total_num_tokens":100000,"page_size":64,"disable_radix_cache":false}`},
			SGLang, Info{Version: "0.5.3", Capacity: 48, CacheTokens: 100_000, BlockSize: 64, PrefixCaching: &yes}, bus.Rerank, bus.Translations},
		"sglang of two ranks": {pages{"/v1/models": listing("sglang"), "/health": "", "/server_info": `{"version":"0.5.3","max_running_requests":null,"disable_radix_cache":true,"internal_states":[{"max_running_requests":10},{"max_running_requests":12}]}`},
			SGLang, Info{Version: "0.5.3", Capacity: 22, PrefixCaching: &no}, bus.Chat, bus.Translations},
		"llama.cpp":        {pages{"/v1/models": listing("llamacpp"), "/health": `{"status":"ok"}`, "/props": `{"total_slots":4,"build_info":"b6000-abc"}`}, LlamaCPP, Info{Version: "b6000-abc", Capacity: 4}, bus.Chat, bus.Transcriptions},
		"ollama":           {pages{"/v1/models": listing("library"), "/": "Ollama is running", "/api/version": `{"version":"0.9.1"}`}, Ollama, Info{Version: "0.9.1"}, bus.Chat, bus.Rerank},
		"infinity":         {pages{"/models": listing("infinity"), "/health": `{"unix":1.5}`}, Infinity, Info{}, bus.Embeddings, bus.Chat},
		"tei, embeddings":  {pages{"/health": "", "/info": `{"model_id":"m","version":"1.8.0","max_input_length":512,"max_concurrent_requests":256,"model_type":{"embedding":{"pooling":"cls"}}}`}, TEI, Info{Version: "1.8.0", Capacity: 256, APIs: []bus.API{bus.Embeddings, bus.Tokenize}}, bus.Embeddings, bus.Rerank},
		"tei, ranks":       {pages{"/health": "", "/info": `{"model_id":"m","version":"1.8.0","model_type":{"reranker":{"id2label":{}}}}`}, TEI, Info{Version: "1.8.0", APIs: []bus.API{bus.Rerank, bus.Tokenize}}, bus.Rerank, bus.Embeddings},
		"something else":   {pages{"/v1/models": listing("someone"), "/health": ""}, OpenAI, Info{}, bus.Chat, ""},
		"without a health": {pages{"/v1/models": listing("someone")}, OpenAI, Info{}, bus.Chat, ""},
	}
	for name, c := range cases {
		kind, err := Detect(t.Context(), c.pages)
		if err != nil || kind != c.kind {
			t.Errorf("%s: found %v, %v", name, kind, err)
			continue
		}
		if err := kind.Health(t.Context(), c.pages); err != nil {
			t.Errorf("%s: health: %v", name, err)
		}
		if models, err := kind.Models(t.Context(), c.pages); err != nil || len(models) != 1 || models[0].ID != "m" || len(models[0].Card) == 0 {
			t.Errorf("%s: models %+v, %v", name, models, err)
		}
		got := kind.Info(t.Context(), c.pages)
		if fmt.Sprintf("%+v", plain(got)) != fmt.Sprintf("%+v", plain(c.info)) {
			t.Errorf("%s: says %+v, want %+v", name, plain(got), plain(c.info))
		}
		apis := got.APIs
		if apis == nil {
			apis = kind.APIs
		}
		if apis != nil && !slices.Contains(apis, c.api) || c.not != "" && slices.Contains(apis, c.not) || c.not == "" && apis != nil {
			t.Errorf("%s: serves %v", name, apis)
		}
	}
}

// plain shows what the pointer of an Info points to.
func plain(i Info) any {
	caching := "unknown"
	if i.PrefixCaching != nil {
		caching = fmt.Sprint(*i.PrefixCaching)
	}
	i.PrefixCaching = nil
	return struct {
		Info
		Caching string
	}{i, caching}
}

// TestLoading: llama.cpp answers 503 while it reads its model, which is no illness.
func TestLoading(t *testing.T) {
	if err := LlamaCPP.Health(t.Context(), pages{"/health": "status 503"}); !errors.Is(err, ErrLoading) {
		t.Errorf("loading is %v", err)
	}
	if err := VLLM.Health(t.Context(), pages{"/health": "status 503"}); err == nil || errors.Is(err, ErrLoading) {
		t.Errorf("ill is %v", err)
	}
}

// TestDetectLoading: an engine that is not found yet may load its model, too.
func TestDetectLoading(t *testing.T) {
	if _, err := Detect(t.Context(), pages{"/v1/models": "status 503"}); !errors.Is(err, ErrLoading) {
		t.Errorf("loading is %v", err)
	}
}

// TestNoEngine: what is no engine is none, and a kind that is not known is named with
// those that are.
func TestNoEngine(t *testing.T) {
	if k, err := Detect(t.Context(), pages{"/": "hello"}); err == nil {
		t.Errorf("found %s", k.Name)
	}
	if _, err := Find("vlm"); err == nil {
		t.Error("vlm is a kind")
	}
	if p := TEI.Path(bus.Rerank, "/v1/rerank"); p != "/rerank" {
		t.Errorf("the path is %s", p)
	}
	if p := VLLM.Path(bus.Rerank, "/v1/rerank"); p != "/v1/rerank" {
		t.Errorf("the path is %s", p)
	}
}
