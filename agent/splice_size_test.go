package agent

import (
	"bytes"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus/peek"
)

// TestParseEditsSafe: whatever a request names, edits that are taken can be applied
// to a body of that size. A request must not bring its agent down (acceptance 46).
func TestParseEditsSafe(t *testing.T) {
	number := rapid.OneOf(rapid.IntRange(0, 40), rapid.SampledFrom([]int{math.MaxInt, math.MaxInt - 1, math.MaxInt32, math.MaxInt/2 + 1}))
	rapid.Check(t, func(rt *rapid.T) {
		body := bytes.Repeat([]byte("x"), rapid.IntRange(0, 40).Draw(rt, "size"))
		var texts []string
		for range rapid.IntRange(0, 4).Draw(rt, "edits") {
			texts = append(texts, peek.Splice{Offset: number.Draw(rt, "offset"), Remove: number.Draw(rt, "remove"), Text: "yy"}.String())
		}
		edits, e := parseEdits(texts, int64(len(body)))
		if e != nil {
			return
		}
		if got := edit(body, edits); int64(len(got)) != int64(len(body))+grown(edits) {
			rt.Fatalf("%q: %d bytes grew by %d to %d", texts, len(body), grown(edits), len(got))
		}
	})
}

// TestEditsInAnyOrder: edits are named in any order and applied in that of their
// places; those at one place stay in theirs.
func TestEditsInAnyOrder(t *testing.T) {
	edits, e := parseEdits([]string{"6 5 there", "0 0 [", "0 0 (", "11 0 ]"}, 11)
	if e != nil {
		t.Fatal(e)
	}
	if got := string(edit([]byte("hello world"), edits)); got != "[(hello there]" {
		t.Errorf("got %q", got)
	}
}

// TestEditReaderReads: the reader keeps the rules of io.Reader, and an edit that
// the body is too short for ends it with an error or short of its size, never with
// the wrong bytes at the right size.
func TestEditReaderReads(t *testing.T) {
	body := strings.Repeat("0123456789", 50)
	edits := []peek.Splice{{Offset: 0, Text: "A"}, {Offset: 5, Remove: 3, Text: "BB"}, {Offset: 8, Remove: 300}, {Offset: 500, Text: "C"}}
	want := edit([]byte(body), edits)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"plain": func(r io.Reader) io.Reader { return r }, "a byte at a time": iotest.OneByteReader, "half": iotest.HalfReader, "early end": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			if err := iotest.TestReader(editReader(wrap(strings.NewReader(body)), edits), want); err != nil {
				t.Error(err)
			}
		})
	}
	for n := range len(body) {
		got, err := io.ReadAll(editReader(strings.NewReader(body[:n]), edits))
		if err == nil && len(got) >= len(want) {
			t.Fatalf("invariant 6: %d of %d bytes became %d, as many as all", n, len(body), len(got))
		}
	}
	broken := iotest.ErrReader(io.ErrClosedPipe)
	if _, err := io.ReadAll(editReader(io.MultiReader(strings.NewReader("01234"), broken), edits)); err == nil {
		t.Error("invariant 6: a body that breaks within an edit ends like a whole one")
	}
}
