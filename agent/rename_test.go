package agent

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestRename: the name is changed where an answer says which model it is from, and
// nowhere else, byte for byte, wherever the answer is cut.
func TestRename(t *testing.T) {
	for name, c := range map[string]struct {
		events    bool
		in, want  string
		from, to_ string
	}{
		"whole":             {in: `{"id":"x","model":"big/one","choices":[{"model":"big/one"}]}`, want: `{"id":"x","model":"chat","choices":[{"model":"big/one"}]}`},
		"space":             {in: "{ \"model\" :\n \"big/one\" , \"a\":1e400 }", want: "{ \"model\" :\n \"chat\" , \"a\":1e400 }"},
		"another value":     {in: `{"model":"big/one-2","x":{"model":"big/one"}}`, want: `{"model":"big/one-2","x":{"model":"big/one"}}`},
		"shorter value":     {in: `{"model":"big"}`, want: `{"model":"big"}`},
		"no string":         {in: `{"model":null,"model":{"model":"big/one"}}`, want: `{"model":null,"model":{"model":"big/one"}}`},
		"in a text":         {in: `{"c":"\"model\":\"big/one\"","d":"\\","model":"big/one"}`, want: `{"c":"\"model\":\"big/one\"","d":"\\","model":"chat"}`},
		"below response":    {events: true, in: "event: a\ndata: {\"type\":\"a\",\"response\":{\"model\":\"big/one\",\"metadata\":{\"model\":\"big/one\"}}}\n\n", want: "event: a\ndata: {\"type\":\"a\",\"response\":{\"model\":\"chat\",\"metadata\":{\"model\":\"big/one\"}}}\n\n"},
		"below message":     {events: true, in: "data: {\"message\":{\"model\":\"big/one\"}}\n\n", want: "data: {\"message\":{\"model\":\"chat\"}}\n\n"},
		"metadata":          {in: `{"metadata":{"model":"big/one"},"message":["model","big/one"]}`, want: `{"metadata":{"model":"big/one"},"message":["model","big/one"]}`},
		"comment with a {":  {events: true, in: ": \"{ hello\ndata: {\"model\":\"big/one\"}\n\ndata: [DONE]\n\n", want: ": \"{ hello\ndata: {\"model\":\"chat\"}\n\ndata: [DONE]\n\n"},
		"cut off":           {in: `{"model":"big/o`, want: `{"model":"big/o`},
		"a name with marks": {in: `{"model":"a\"<b>"}`, want: `{"model":"c\\d"}`, from: `a"<b>`, to_: `c\d`},
		"a value as key":    {in: `{"a":"model","b":"big/one","model":"big/one"}`, want: `{"a":"model","b":"big/one","model":"chat"}`},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := "big/one", "chat"
			if c.from != "" {
				from, to = c.from, c.to_
			}
			for size := 1; size <= len(c.in); size++ {
				if got := renamed(newRenamer(from, to, c.events), []byte(c.in), size); string(got) != c.want {
					t.Fatalf("in pieces of %d:\n got %s\nwant %s", size, got, c.want)
				}
			}
		})
	}
}

func renamed(r *renamer, in []byte, size int) []byte {
	var out []byte
	for len(in) > 0 {
		n := min(size, len(in))
		out = append(out, r.feed(in[:n])...)
		in = in[n:]
	}
	return append(out, r.flush()...)
}

// TestRenameJSON: whatever the rest of an answer is, only its model changes.
func TestRenameJSON(t *testing.T) {
	word := rapid.SampledFrom([]string{"model", "big/one", "message", "response", `\`, `"`, "{", "\n", "ü"})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			switch k := rapid.IntRange(0, 4).Draw(t, "kind"); {
			case k == 0 && depth > 0:
				return rapid.MapOfN(word, value(depth-1), 0, 4).Draw(t, "object")
			case k == 1 && depth > 0:
				return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "array")
			case k == 2:
				return rapid.Int().Draw(t, "number")
			}
			return word.Draw(t, "text")
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		doc := rapid.MapOfN(word, value(3), 0, 5).Draw(t, "document")
		in, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		change := func(v any) {
			if m, ok := v.(map[string]any); ok && m["model"] == "big/one" {
				m["model"] = "chat"
			}
		}
		got := renamed(newRenamer("big/one", "chat", rapid.Bool().Draw(t, "events")), in, rapid.IntRange(1, len(in)).Draw(t, "size"))
		change(doc)
		change(doc["response"])
		change(doc["message"])
		want, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("\n in %s\ngot %s\nwant %s", in, got, want)
		}
	})
}

// FuzzRename: no answer makes it fail, and without a name to change every byte stays.
func FuzzRename(f *testing.F) {
	f.Add([]byte("data: {\"model\":\"big/one\"}\n\n"), 3, true)
	f.Add([]byte(`}]{"model":"big/one"`), 1, false)
	f.Fuzz(func(t *testing.T, in []byte, size int, events bool) {
		size = min(max(size, 1), 1000)
		got := renamed(newRenamer("big/one", "chat", events), in, size)
		if !bytes.Equal(bytes.ReplaceAll(got, []byte(`"chat"`), []byte(`"big/one"`)), bytes.ReplaceAll(in, []byte(`"chat"`), []byte(`"big/one"`))) {
			t.Fatalf("%q became %q", in, got)
		}
		if !bytes.Contains(in, []byte("big/one")) && !bytes.Equal(got, in) {
			t.Fatalf("%q became %q", in, got)
		}
	})
}
