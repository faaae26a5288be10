package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// TestBodyUsageOdd: what looks like usage and is none, and usage in odd clothes.
func TestBodyUsageOdd(t *testing.T) {
	five := bus.Usage{Prompt: 5}
	cases := map[string]struct {
		body string
		want bus.Usage
		ok   bool
	}{
		"plain":                 {`{"usage":{"prompt_tokens":5}}`, five, true},
		"spaces":                {"{ \"usage\" :\n{ \"prompt_tokens\"\t: 5 } }", five, true},
		"empty":                 {`{"usage":{}}`, bus.Usage{}, true},
		"null":                  {`{"usage":null}`, bus.Usage{}, false},
		"null, then an object":  {`{"usage":null,"x":{"prompt_tokens":9}}`, bus.Usage{}, false},
		"an array":              {`{"usage":[{"prompt_tokens":9}]}`, bus.Usage{}, false},
		"a string":              {`{"usage":"{\"prompt_tokens\":9}"}`, bus.Usage{}, false},
		"the value of a key":    {`{"a":"usage","b":{"prompt_tokens":9}}`, bus.Usage{}, false},
		"in an array":           {`["usage",{"prompt_tokens":9}]`, bus.Usage{}, false},
		"nested":                {`{"a":{"usage":{"prompt_tokens":9}}}`, bus.Usage{}, false},
		"nested and at the top": {`{"a":{"usage":{"prompt_tokens":9}},"usage":{"prompt_tokens":5}}`, five, true},
		"behind a long string":  {`{"text":"` + strings.Repeat(`\"usage\":{`, 1000) + `","usage":{"prompt_tokens":5}}`, five, true},
		"behind an escape":      {`{"a":"\\","usage":{"prompt_tokens":5}}`, five, true},
		"a longer key":          {`{"usages":{"prompt_tokens":9},"usag":{"prompt_tokens":9}}`, bus.Usage{}, false},
		"messages dialect":      {`{"usage":{"input_tokens":5,"output_tokens":2,"cache_read_input_tokens":1}}`, bus.Usage{Prompt: 5, Completion: 2, Cached: 1}, true},
		"embeddings":            {`{"usage":{"prompt_tokens":5,"total_tokens":5}}`, five, true},
		"only a total":          {`{"usage":{"total_tokens":5}}`, five, true},
		"text within":           {`{"usage":{"note":"\"prompt_tokens\":9","prompt_tokens":5}}`, five, true},
		"a key within a word":   {`{"usage":{"x_prompt_tokens":9,"prompt_tokens":5}}`, five, true},
		"details before counts": {`{"usage":{"prompt_tokens_details":{"cached_tokens":3},"prompt_tokens":5}}`, bus.Usage{Prompt: 5, Cached: 3}, true},
		"truncated":             {`{"usage":{"prompt_tokens":5`, bus.Usage{}, false},
		"not JSON":              {`}}}]]"usage":{{{`, bus.Usage{}, false},
		"no object at all":      {`"usage":{"prompt_tokens":9}`, bus.Usage{}, false},
	}
	for name, c := range cases {
		for _, step := range []int{1, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d at a time", name, step), func(t *testing.T) {
				if got, ok := scan([]byte(c.body), step); got != c.want || ok != c.ok {
					t.Errorf("got %v, %v, want %v, %v", got, ok, c.want, c.ok)
				}
			})
		}
	}
}

// TestBodyUsageOfAnyDocument: in any JSON document, only the object at its top
// counts, as encoding/json reads it.
func TestBodyUsageOfAnyDocument(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	key := rapid.SampledFrom([]string{"usage", "Usage", "usage\"", "a", "prompt_tokens", "\\", "é", ""})
	object := func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(rt *rapid.T) any {
			doc := make(map[string]any)
			for range rapid.IntRange(0, 3).Draw(rt, "n") {
				doc[key.Draw(rt, "key")] = value(depth-1).Draw(rt, "value")
			}
			return doc
		})
	}
	value = func(depth int) *rapid.Generator[any] {
		leaves := []*rapid.Generator[any]{
			rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](`"usage":{"prompt_tokens":1}`), rapid.Just[any](`\`),
			rapid.Map(rapid.IntRange(0, 1000), func(n int) any { return n }),
		}
		if depth == 0 {
			return rapid.OneOf(leaves...)
		}
		array := rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) }), 0, 3), func(l []any) any { return l })
		return rapid.OneOf(append(leaves, array, object(depth))...)
	}
	rapid.Check(t, func(rt *rapid.T) {
		doc := object(3).Draw(rt, "doc").(map[string]any)
		delete(doc, "Usage") // encoding/json would take it for usage
		switch u := doc["usage"].(type) {
		case map[string]any:
			for k := range u {
				delete(u, k)
			}
			u["prompt_tokens"], u["note"] = rapid.IntRange(0, 1e6).Draw(rt, "prompt"), value(0).Draw(rt, "note")
		default:
			if u != nil {
				delete(doc, "usage") // not an object, on which encoding/json would fail
			}
		}
		body, err := json.Marshal(doc)
		if err != nil {
			rt.Fatal(err)
		}
		want, wantOK := topUsage(body)
		if got, ok := scan(body, rapid.IntRange(1, 40).Draw(rt, "step")); got != want || ok != wantOK {
			rt.Fatalf("got %v, %v, want %v, %v in %s", got, ok, want, wantOK, body)
		}
	})
}

// TestBodyUsageBounded: however long a body or its usage is, little is kept
// (invariant 10).
func TestBodyUsageBounded(t *testing.T) {
	for name, text := range map[string]string{
		"a long key": `{"` + strings.Repeat("k", 1<<20) + `":1}`, "a long usage": `{"usage":{"x":"` + strings.Repeat("k", 1<<20) + `","prompt_tokens":5}}`,
		"many usages": "{" + strings.Repeat(`"usage":{"prompt_tokens":5},`, 50_000) + `"a":1}`, "deep": strings.Repeat(`{"usage":`, 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			var b bodyUsage
			for p := []byte(text); len(p) > 0; {
				n := min(1000, len(p))
				b.write(p[:n])
				p = p[n:]
			}
			if cap(b.key) > 1<<10 || cap(b.capture) > 4*maxUsage || cap(b.found) > 4*maxUsage {
				t.Errorf("invariant 10: key %d, capture %d, found %d", cap(b.key), cap(b.capture), cap(b.found))
			}
		})
	}
}

func BenchmarkBodyUsage(b *testing.B) {
	body := []byte(`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 400) + `"}}],"usage":{"prompt_tokens":12,"total_tokens":412,"completion_tokens":400}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var u bodyUsage
		u.write(body)
		if _, ok := u.usage(); !ok {
			b.Fatal("no usage")
		}
	}
}
