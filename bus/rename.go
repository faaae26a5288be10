package bus

import (
	"fmt"
	"strings"

	"github.com/tokenbus/tokenbus/bus/peek"
)

// Rename edits the headers of a request such that its body names another model when it
// comes to the engine, and reports whether it can: nobody reads the model of a form.
// The last one holds.
func Rename(h Header, model string) bool {
	if at := get(h, HeaderModelAt); at != "" {
		s, err := peek.ParseSplice(at + " ")
		if err != nil {
			return false
		}
		s.Text = peek.Quote(model)
		edits := append([]string(nil), h[HeaderSplice]...)
		for i, text := range edits {
			if e, err := peek.ParseSplice(text); err == nil && e.Offset == s.Offset && e.Remove == s.Remove {
				edits[i] = s.String()
				h[HeaderSplice] = edits
				return true
			}
		}
		h[HeaderSplice] = append(edits, s.String())
		return true
	}
	edits := append([]string(nil), h[HeaderSplice]...)
	for i, text := range edits {
		s, err := peek.ParseSplice(text)
		if rest, ok := strings.CutPrefix(s.Text, `"model":`); err == nil && ok {
			comma := ""
			if strings.HasSuffix(rest, ",") {
				comma = ","
			}
			edits[i] = fmt.Sprintf(`%d %d "model":%s%s`, s.Offset, s.Remove, peek.Quote(model), comma)
			h[HeaderSplice] = edits
			return true
		}
	}
	return false
}
