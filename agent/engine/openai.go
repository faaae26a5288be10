package engine

import "context"

// OpenAI is whatever speaks OpenAI's API: of it nothing is known but its models.
var OpenAI = &Kind{Name: "openai", info: openAIInfo}

// openAIInfo tries vLLM's route for the version, which others have, too.
func openAIInfo(ctx context.Context, c Client) Info {
	var v struct {
		Version string `json:"version"`
	}
	ask(ctx, c, "/version", &v)
	return Info{Version: v.Version}
}
