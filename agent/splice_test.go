package agent

import (
	"bytes"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus/peek"
)

// Edits of a body that is read are those of one that is in memory.
func TestSplice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(rapid.StringN(0, 50, 100).Draw(t, "body"))
		var texts []string
		var want []byte
		at := 0
		for at < len(body) && rapid.Bool().Draw(t, "more") {
			offset := rapid.IntRange(at, len(body)).Draw(t, "offset")
			remove := rapid.IntRange(0, len(body)-offset).Draw(t, "remove")
			text := rapid.StringN(0, 5, 10).Draw(t, "text")
			texts = append(texts, peek.Splice{Offset: offset, Remove: remove, Text: text}.String())
			want = append(append(want, body[at:offset]...), text...)
			at = offset + remove
		}
		want = append(want, body[at:]...)
		edits, e := parseEdits(texts, int64(len(body)))
		if e != nil {
			t.Fatal(e)
		}
		if got := edit(body, edits); !bytes.Equal(got, want) || int64(len(got)) != int64(len(body))+grown(edits) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if got, err := io.ReadAll(editReader(bytes.NewReader(body), edits)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read %q, %v, want %q", got, err, want)
		}
	})
}

func TestSpliceRefuses(t *testing.T) {
	for name, texts := range map[string][]string{
		"garbage": {"x"}, "no text": {"1 2"}, "negative": {"-1 0 a"}, "outside": {"5 1 a"}, "far outside": {"9223372036854775807 1 a"},
		"overlap": {"0 3 a", "2 0 b"},
	} {
		if _, e := parseEdits(texts, 5); e == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
