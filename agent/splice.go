package agent

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/peek"
)

// parseEdits reads the byte edits that a request names and puts them in order.
func parseEdits(texts []string, size int64) ([]peek.Splice, *bus.Error) {
	edits := make([]peek.Splice, 0, len(texts))
	for _, t := range texts {
		e, err := peek.ParseSplice(t)
		if err != nil {
			return nil, bus.Errorf(bus.ReasonBadRequest, "%w", err)
		}
		edits = append(edits, e)
	}
	slices.SortStableFunc(edits, func(a, b peek.Splice) int { return cmp.Compare(a.Offset, b.Offset) })
	end := 0
	for _, e := range edits {
		if e.Offset < end || int64(e.Offset) > size || int64(e.Remove) > size-int64(e.Offset) {
			return nil, bus.Errorf(bus.ReasonBadRequest, "the edits of the body overlap or leave it")
		}
		end = e.Offset + e.Remove
	}
	return edits, nil
}

// grown is how many bytes the edits add.
func grown(edits []peek.Splice) int64 {
	n := 0
	for _, e := range edits {
		n += len(e.Text) - e.Remove
	}
	return int64(n)
}

// edit applies edits in order to a body that is all here.
func edit(body []byte, edits []peek.Splice) []byte {
	out := make([]byte, 0, int64(len(body))+grown(edits))
	at := 0
	for _, e := range edits {
		out = append(append(out, body[at:e.Offset]...), e.Text...)
		at = e.Offset + e.Remove
	}
	return append(out, body[at:]...)
}

// editReader applies edits in order to a body that is read.
func editReader(r io.Reader, edits []peek.Splice) io.Reader {
	var parts []io.Reader
	at := 0
	for _, e := range edits {
		parts = append(parts, io.LimitReader(r, int64(e.Offset-at)), strings.NewReader(e.Text), &skip{r, int64(e.Remove)})
		at = e.Offset + e.Remove
	}
	return io.MultiReader(append(parts, r)...)
}

// skip drops n bytes of r and then ends.
type skip struct {
	r io.Reader
	n int64
}

func (s *skip) Read([]byte) (int, error) {
	if _, err := io.CopyN(io.Discard, s.r, s.n); err != nil {
		return 0, err
	}
	s.n = 0
	return 0, io.EOF
}
