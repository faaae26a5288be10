package engine

import (
	"context"

	"github.com/tokenbus/tokenbus/bus"
)

// Infinity is Infinity, an engine for embeddings and ranks. Its routes have no /v1.
var Infinity = &Kind{
	Name: "infinity", models: infinityModels,
	APIs:  []bus.API{bus.Embeddings, bus.Rerank, bus.Classify},
	Paths: map[bus.API]string{bus.Embeddings: "/embeddings", bus.Rerank: "/rerank", bus.Classify: "/classify"},
}

func infinityModels(ctx context.Context, c Client) ([]bus.Model, error) {
	return listModels(ctx, c, "/models")
}
