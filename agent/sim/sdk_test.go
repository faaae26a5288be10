package sim

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// listen serves an instant engine over TCP.
func listen(t *testing.T) string {
	s, err := New(Instant())
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s.Handler())
	t.Cleanup(hs.Close)
	return hs.URL
}

// The official OpenAI client understands streams of responses and chat.
func TestOpenAIClient(t *testing.T) {
	client := openai.NewClient(option.WithBaseURL(listen(t)+"/v1"), option.WithAPIKey("k"), option.WithMaxRetries(0))
	ctx := context.Background()

	ask := responses.ResponseNewParams{
		Model: "sim-model",
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")},
	}
	whole, err := client.Responses.New(ctx, ask)
	if err != nil {
		t.Fatal(err)
	}
	var said, last string
	number := int64(0)
	events := client.Responses.NewStreaming(ctx, ask)
	for ; events.Next(); number++ {
		e := events.Current()
		if e.SequenceNumber != number {
			t.Errorf("event %d has number %d", number, e.SequenceNumber)
		}
		switch e := e.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			said += e.Delta
		case responses.ResponseCompletedEvent:
			if e.Response.OutputText() != said || e.Response.Usage.OutputTokens != 64 {
				t.Errorf("completed with %q after %q", e.Response.OutputText(), said)
			}
		}
		last = e.Type
	}
	if err := events.Err(); err != nil || said == "" || said != whole.OutputText() || last != "response.completed" {
		t.Errorf("%v: streamed %q, whole %q, last event %s", err, said, whole.OutputText(), last)
	}

	chat := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model:         "sim-model",
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	var acc openai.ChatCompletionAccumulator
	for chat.Next() {
		if !acc.AddChunk(chat.Current()) {
			t.Errorf("chunk does not fit: %s", chat.Current().RawJSON())
		}
	}
	if chat.Err() != nil || acc.Usage.CompletionTokens != 64 || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("%v: %+v", chat.Err(), acc.Usage)
	}
	page, err := client.Models.List(ctx)
	if err != nil || len(page.Data) != 1 || page.Data[0].OwnedBy != "vllm" {
		t.Errorf("%v: models %+v", err, page)
	}
}

// The official Anthropic client understands messages.
func TestAnthropicClient(t *testing.T) {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(listen(t)), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
	ctx := context.Background()
	for name, c := range map[string]struct {
		say  string
		kind string
		stop anthropic.StopReason
	}{
		"text": {"hello", "text", anthropic.StopReasonMaxTokens},
		"tool": {"tool: weather", "tool_use", anthropic.StopReasonToolUse},
	} {
		ask := anthropic.MessageNewParams{
			Model: "sim-model", MaxTokens: 20,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(c.say))},
			Tools: []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{
				Name:        "weather",
				InputSchema: anthropic.ToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}},
			}}},
		}
		whole, err := client.Messages.New(ctx, ask)
		if err != nil {
			t.Fatal(err)
		}
		var acc anthropic.Message
		events := client.Messages.NewStreaming(ctx, ask)
		for events.Next() {
			if err := acc.Accumulate(events.Current()); err != nil {
				t.Error(err)
			}
		}
		if events.Err() != nil || acc.StopReason != c.stop || whole.StopReason != c.stop || acc.Content[0].Type != c.kind {
			t.Fatalf("%s: %v, stop %q and %q, %+v", name, events.Err(), acc.StopReason, whole.StopReason, acc.Content)
		}
		if acc.Content[0].Text != whole.Content[0].Text || acc.Usage.OutputTokens != whole.Usage.OutputTokens ||
			string(acc.Content[0].Input) != string(whole.Content[0].Input) {
			t.Errorf("%s: streamed %+v, whole %+v", name, acc.Content, whole.Content)
		}
	}
	n, err := client.Messages.CountTokens(ctx, anthropic.MessageCountTokensParams{
		Model:    "sim-model",
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))},
	})
	if err != nil || n.InputTokens != 3 {
		t.Errorf("%v: %+v", err, n)
	}
}
