package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tokenbus/tokenbus/bus"
)

// TEI is Hugging Face's Text Embeddings Inference: one model, which /info describes.
var TEI = &Kind{
	Name: "tei", models: teiModels, info: teiInfo,
	APIs:    []bus.API{bus.Embeddings, bus.Rerank, bus.Tokenize},
	Paths:   map[bus.API]string{bus.Rerank: "/rerank", bus.Tokenize: "/tokenize"},
	Metrics: Names{Waiting: []string{"te_queue_size"}},
}

type teiDoc struct {
	Model    string `json:"model_id"`
	Version  string `json:"version"`
	MaxLen   int    `json:"max_input_length"`
	Most     int    `json:"max_concurrent_requests"`
	TypeName struct {
		Embedding  json.RawMessage `json:"embedding"`
		Reranker   json.RawMessage `json:"reranker"`
		Classifier json.RawMessage `json:"classifier"`
	} `json:"model_type"`
}

func teiModels(ctx context.Context, c Client) ([]bus.Model, error) {
	var d teiDoc
	if !ask(ctx, c, "/info", &d) || bus.CheckModel(d.Model) != nil {
		return nil, fmt.Errorf("list models: /info names none")
	}
	card, err := json.Marshal(map[string]any{"id": d.Model, "object": "model", "owned_by": "tei", "max_model_len": d.MaxLen})
	if err != nil {
		return nil, err
	}
	return []bus.Model{{ID: d.Model, MaxModelLen: d.MaxLen, Card: card}}, nil
}

func teiInfo(ctx context.Context, c Client) Info {
	var d teiDoc
	ask(ctx, c, "/info", &d)
	i := Info{Version: d.Version, Capacity: d.Most}
	switch {
	case d.TypeName.Embedding != nil:
		i.APIs = []bus.API{bus.Embeddings, bus.Tokenize}
	case d.TypeName.Reranker != nil:
		i.APIs = []bus.API{bus.Rerank, bus.Tokenize}
	}
	return i
}
