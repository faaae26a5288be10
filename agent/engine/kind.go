package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tokenbus/tokenbus/bus"
)

// What a probe can come to, beside a good answer and a plain failure.
var (
	ErrAsleep  = errors.New("the engine sleeps")
	ErrLoading = errors.New("the engine loads its model")
)

// Client asks an engine for what is below its base URL.
type Client interface {
	// Get gives the status and the body of an answer, which is bounded.
	Get(ctx context.Context, path string) (status int, body []byte, err error)
}

// Info is what an engine says of itself. What it does not say is zero or nil.
type Info struct {
	Version       string
	Capacity      int       // requests that it takes at one time
	APIs          []bus.API // that it serves; nil: what its kind does
	CacheTokens   int64     // room of its prefix cache
	BlockSize     int       // tokens of a block of that cache
	PrefixCaching *bool
	Asleep        bool
}

// Kind is one kind of engine.
type Kind struct {
	Name string
	// APIs are those that every engine of the kind serves, and no other; nil: it
	// depends on the model, and the engine itself refuses.
	APIs []bus.API
	// Paths are the engine's paths where they are not the API's own.
	Paths   map[bus.API]string
	Metrics Names
	// Adapters are the routes that load and unload a LoRA adapter; nil: there are none.
	Adapters *AdapterRoutes

	health func(context.Context, Client) error
	models func(context.Context, Client) ([]bus.Model, error)
	info   func(context.Context, Client) Info
}

// AdapterRoutes take {"lora_name", "lora_path"} and {"lora_name"}.
type AdapterRoutes struct{ Load, Unload string }

// Names are the names of an engine's metrics, those of its newest version first. What
// an engine does not show has none. Histograms have no suffix.
type Names struct {
	Running, Waiting []string // gauges
	CacheUse         []string // gauge: share of the KV cache in use, 0 to 1
	Queries, Hits    []string // counters: tokens that were looked for and found in the prefix cache
	Misses           []string // counter: tokens that were not found there; an engine may have this in place of Queries
	Preemptions      []string // counter
	TTFT, ITL        []string // histograms, in seconds
}

// Kinds are all kinds. The last takes whatever speaks OpenAI's API.
var Kinds = []*Kind{VLLM, SGLang, LlamaCPP, Ollama, Infinity, TEI, OpenAI}

// Find gives the kind of a name.
func Find(name string) (*Kind, error) {
	var names []string
	for _, k := range Kinds {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return nil, fmt.Errorf("%q is no kind of engine; there are %s", name, strings.Join(names, ", "))
}

// Path gives the engine's path for a request of an API that came for another.
func (k *Kind) Path(api bus.API, path string) string {
	if p, ok := k.Paths[api]; ok {
		return p
	}
	return path
}

// Health asks the engine whether it is well.
func (k *Kind) Health(ctx context.Context, c Client) error {
	if k.health != nil {
		return k.health(ctx, c)
	}
	return healthRoute(ctx, c)
}

// Models lists what the engine serves, with the engine's own cards.
func (k *Kind) Models(ctx context.Context, c Client) ([]bus.Model, error) {
	if k.models != nil {
		return k.models(ctx, c)
	}
	return listModels(ctx, c, "/v1/models")
}

// Info asks the engine what it is. What can't be read is not known.
func (k *Kind) Info(ctx context.Context, c Client) Info {
	if k.info == nil {
		return Info{}
	}
	return k.info(ctx, c)
}

// Detect finds out of which kind an engine that answers is, by what it says of its
// models, or by routes that no other kind has.
func Detect(ctx context.Context, c Client) (*Kind, error) {
	status, body, err := c.Get(ctx, "/v1/models")
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusServiceUnavailable:
		return nil, ErrLoading // as llama.cpp says it
	}
	var list struct {
		Data []struct {
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	if status == http.StatusOK && json.Unmarshal(body, &list) == nil {
		for _, m := range list.Data {
			for _, k := range []*Kind{VLLM, SGLang, LlamaCPP, Infinity} {
				if m.OwnedBy == k.Name {
					return k, nil
				}
			}
		}
		var v struct {
			Version string `json:"version"`
		}
		if ask(ctx, c, "/api/version", &v) && v.Version != "" {
			return Ollama, nil
		}
		return OpenAI, nil
	}
	if _, err := teiModels(ctx, c); err == nil {
		return TEI, nil
	}
	if _, err := listModels(ctx, c, "/models"); err == nil {
		return Infinity, nil
	}
	return nil, fmt.Errorf("list models: the engine answers %d", status)
}

// healthRoute asks /health. An engine that has none is asked for its models instead.
func healthRoute(ctx context.Context, c Client) error {
	status, _, err := c.Get(ctx, "/health")
	if err == nil && status == http.StatusNotFound {
		status, _, err = c.Get(ctx, "/v1/models")
	}
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/health answers %d", status)
	}
	return err
}

// ask reads a JSON document and reports whether it is there.
func ask(ctx context.Context, c Client, path string, doc any) bool {
	status, body, err := c.Get(ctx, path)
	return err == nil && status == http.StatusOK && json.Unmarshal(body, doc) == nil
}

// listModels reads OpenAI's list of models.
func listModels(ctx context.Context, c Client, path string) ([]bus.Model, error) {
	status, body, err := c.Get(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("list models: the engine answers %d", status)
	}
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	var models []bus.Model
	for _, card := range list.Data {
		var m struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			MaxLen int     `json:"max_model_len"`
		}
		if json.Unmarshal(card, &m) != nil || bus.CheckModel(m.ID) != nil {
			continue
		}
		model := bus.Model{ID: m.ID, MaxModelLen: m.MaxLen, Card: card}
		if m.Parent != nil {
			model.Parent = *m.Parent
		}
		models = append(models, model)
	}
	if len(models) == 0 {
		return nil, errors.New("list models: the engine lists none that can be used")
	}
	return models, nil
}

// generative are the APIs of an engine that writes text.
func generative(more ...bus.API) []bus.API {
	return slices.Concat([]bus.API{bus.Chat, bus.Completions, bus.Embeddings}, more)
}
