package agent

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// topUsage is what encoding/json finds of a usage object at the top of a body.
func topUsage(body []byte) (u bus.Usage, ok bool) {
	var doc struct {
		Usage *usageText `json:"usage"`
	}
	if json.Unmarshal(body, &doc) != nil || doc.Usage == nil {
		return u, false
	}
	doc.Usage.merge(&u)
	return u, true
}

func scan(body []byte, step int) (bus.Usage, bool) {
	var b bodyUsage
	for len(body) > 0 {
		n := min(step, len(body))
		b.write(body[:n])
		body = body[n:]
	}
	return b.usage()
}

// The usage of a body is found whatever its neighbours and however it is split,
// and never one that is not at the top.
func TestBodyUsage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := make(map[string]any)
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			doc[rapid.SampledFrom([]string{"id", "x\"usage", "choices", "text", "usage:"}).Draw(t, "name")] = rapid.SampledFrom([]any{
				1.5, "a \"usage\":{\"prompt_tokens\":9}", nil, []any{map[string]any{"usage": map[string]any{"prompt_tokens": 77}}}, map[string]any{"usage": 3}, "\\",
			}).Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "has") {
			doc["usage"] = map[string]any{
				"prompt_tokens": rapid.IntRange(0, 1e9).Draw(t, "prompt"), "completion_tokens": rapid.IntRange(0, 1e9).Draw(t, "completion"),
				"prompt_tokens_details": map[string]any{"cached_tokens": rapid.IntRange(0, 100).Draw(t, "cached")},
			}
		}
		body, err := json.Marshal(doc)
		if rapid.Bool().Draw(t, "indent") {
			body, err = json.MarshalIndent(doc, "", "  ")
		}
		if err != nil {
			t.Fatal(err)
		}
		want, wantOK := topUsage(body)
		if got, ok := scan(body, rapid.IntRange(1, 50).Draw(t, "step")); got != want || ok != wantOK {
			t.Fatalf("got %v, %v, want %v, %v in %s", got, ok, want, wantOK, body)
		}
	})
}

func FuzzBodyUsage(f *testing.F) {
	f.Add([]byte(`{"usage":{"prompt_tokens":5}}`), uint8(1))
	f.Add([]byte(`{"a":"\"","usage":{"x":{"y":"}"}}}`), uint8(2))
	f.Fuzz(func(t *testing.T, body []byte, step uint8) {
		a, okA := scan(body, len(body)+1)
		b, okB := scan(body, int(step)+1)
		if a != b || okA != okB {
			t.Fatalf("whole %v, %v, in parts %v, %v", a, okA, b, okB)
		}
	})
}
