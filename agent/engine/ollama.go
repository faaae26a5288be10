package engine

import (
	"context"
	"fmt"
	"net/http"

	"github.com/tokenbus/tokenbus/bus"
)

// Ollama is Ollama. It has neither metrics nor a word about how much it takes at once.
var Ollama = &Kind{Name: "ollama", health: ollamaHealth, info: ollamaInfo, APIs: generative(bus.Responses, bus.Messages)}

func ollamaHealth(ctx context.Context, c Client) error {
	status, _, err := c.Get(ctx, "/")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/ answers %d", status)
	}
	return err
}

func ollamaInfo(ctx context.Context, c Client) Info {
	var v struct {
		Version string `json:"version"`
	}
	ask(ctx, c, "/api/version", &v)
	return Info{Version: v.Version}
}
