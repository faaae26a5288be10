package integration

import (
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func (s *system) anthropic() anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(s.url), option.WithAPIKey("client-key"), option.WithMaxRetries(0))
}

func messageParams(say string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: model, MaxTokens: 20, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(say))},
	}
}

// The official Anthropic client talks to the gateway as to Anthropic.
func TestAnthropic(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.anthropic()
	for name, c := range map[string]struct {
		say  string
		kind string
		stop anthropic.StopReason
	}{
		"text": {"hello", "text", anthropic.StopReasonMaxTokens},
		"tool": {"tool: weather", "tool_use", anthropic.StopReasonToolUse},
	} {
		params := messageParams(c.say)
		params.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
			Name:        "weather",
			InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}},
		}}}
		whole, err := client.Messages.New(t.Context(), params)
		check(t, err)
		stream := client.Messages.NewStreaming(t.Context(), params)
		var acc anthropic.Message
		for stream.Next() {
			check(t, acc.Accumulate(stream.Current()))
		}
		check(t, stream.Err())
		if len(acc.Content) != 1 || acc.Content[0].Type != c.kind || acc.StopReason != c.stop || whole.StopReason != c.stop {
			t.Fatalf("%s: stop %q and %q, %+v", name, acc.StopReason, whole.StopReason, acc.Content)
		}
		if acc.Content[0].Text != whole.Content[0].Text || string(acc.Content[0].Input) != string(whole.Content[0].Input) ||
			acc.Usage.OutputTokens != whole.Usage.OutputTokens {
			t.Errorf("%s: streamed %+v, whole %+v", name, acc.Content, whole.Content)
		}
	}
	n, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
		Model: model, Messages: messageParams("hello").Messages,
	})
	check(t, err)
	if n.InputTokens == 0 {
		t.Errorf("count_tokens: %s", n.RawJSON())
	}
}
