package integration

import (
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

func (s *system) openai() openai.Client {
	return openai.NewClient(option.WithBaseURL(s.url+"/v1"), option.WithAPIKey("client-key"), option.WithMaxRetries(0))
}

func chatParams(say string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(say)}, MaxTokens: openai.Int(12),
	}
}

// weather is a tool.
func weather() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "weather",
		Parameters: openai.FunctionParameters{
			"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}},
		},
	})}
}

// The official OpenAI client talks to the gateway as to OpenAI.
func TestOpenAIChat(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.openai()
	whole, err := client.Chat.Completions.New(t.Context(), chatParams("hello"))
	check(t, err)
	said := whole.Choices[0].Message.Content
	if said == "" || whole.Usage.CompletionTokens != 12 || whole.Choices[0].FinishReason != "length" {
		t.Errorf("whole answer: %s", whole.RawJSON())
	}
	for name, usage := range map[string]bool{"usage asked": true, "usage not asked": false} {
		params := chatParams("hello")
		if usage {
			params.StreamOptions.IncludeUsage = openai.Bool(true)
		}
		stream := client.Chat.Completions.NewStreaming(t.Context(), params)
		var acc openai.ChatCompletionAccumulator
		empty := 0
		for stream.Next() {
			if len(stream.Current().Choices) == 0 {
				empty++
			}
			if !acc.AddChunk(stream.Current()) {
				t.Errorf("%s: chunk does not fit: %s", name, stream.Current().RawJSON())
			}
		}
		check(t, stream.Err())
		if acc.Choices[0].Message.Content != said || acc.Choices[0].FinishReason != "length" {
			t.Errorf("%s: streamed %q, whole %q", name, acc.Choices[0].Message.Content, said)
		}
		if (acc.Usage.CompletionTokens == 12) != usage || (empty > 0) != usage {
			t.Errorf("%s: usage %d, %d chunks without a choice", name, acc.Usage.CompletionTokens, empty)
		}
	}
}

func TestOpenAITools(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.openai()
	params := chatParams("tool: weather")
	params.Tools, params.MaxTokens = weather(), openai.Int(64)
	whole, err := client.Chat.Completions.New(t.Context(), params)
	check(t, err)
	calls := whole.Choices[0].Message.ToolCalls
	if len(calls) != 1 || calls[0].Function.Name != "weather" {
		t.Fatalf("whole answer: %s", whole.RawJSON())
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	check(t, stream.Err())
	got := acc.Choices[0].Message.ToolCalls
	if len(got) != 1 || got[0].Function.Name != "weather" || got[0].Function.Arguments != calls[0].Function.Arguments || got[0].ID == "" || acc.Choices[0].FinishReason != "tool_calls" {
		t.Errorf("streamed %+v, whole %+v", got, calls)
	}
}

func TestOpenAIOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.openai()
	emb, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"one", "two"}},
	})
	check(t, err)
	if len(emb.Data) != 2 || len(emb.Data[1].Embedding) == 0 || emb.Usage.PromptTokens == 0 {
		t.Errorf("embeddings: %d rows, usage %+v", len(emb.Data), emb.Usage)
	}
	params := openai.CompletionNewParams{Model: model, Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("hello")}}
	whole, err := client.Completions.New(t.Context(), params)
	check(t, err)
	stream := client.Completions.NewStreaming(t.Context(), params)
	said := ""
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			said += c.Text
		}
	}
	check(t, stream.Err())
	if said == "" || said != whole.Choices[0].Text {
		t.Errorf("completions: streamed %q, whole %q", said, whole.Choices[0].Text)
	}
	page, err := client.Models.List(t.Context())
	check(t, err)
	if len(page.Data) != 1 || page.Data[0].ID != model || page.Data[0].OwnedBy != "vllm" {
		t.Errorf("models: %s", page.RawJSON())
	}
	card, err := client.Models.Get(t.Context(), model) // the SDK escapes the slash
	check(t, err)
	if card.ID != model {
		t.Errorf("model: %s", card.RawJSON())
	}
}

func TestOpenAIResponses(t *testing.T) {
	t.Parallel()
	s := start(t)
	client := s.openai()
	params := responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("hello")}}
	whole, err := client.Responses.New(t.Context(), params)
	check(t, err)
	stream := client.Responses.NewStreaming(t.Context(), params)
	var said, end string
	number := int64(0)
	for ; stream.Next(); number++ {
		e := stream.Current()
		if e.SequenceNumber != number {
			t.Errorf("event %d has number %d", number, e.SequenceNumber)
		}
		switch e := e.AsAny().(type) {
		case responses.ResponseTextDeltaEvent:
			said += e.Delta
		case responses.ResponseCompletedEvent:
			if e.Response.Usage.OutputTokens == 0 {
				t.Errorf("completed without usage: %s", e.RawJSON())
			}
		}
		end = e.Type
	}
	check(t, stream.Err())
	if said == "" || said != whole.OutputText() || end != "response.completed" {
		t.Errorf("streamed %q, whole %q, last event %s", said, whole.OutputText(), end)
	}
}
