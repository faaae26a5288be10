package peek

import (
	"fmt"
	"strconv"
	"strings"
)

// Splice is one edit of a body: at Offset, Remove bytes give way to Text.
type Splice struct {
	Offset, Remove int
	Text           string
}

func (s Splice) String() string { return fmt.Sprintf("%d %d %s", s.Offset, s.Remove, s.Text) }

// ParseSplice is the inverse of [Splice.String].
func ParseSplice(s string) (Splice, error) {
	at, rest, ok1 := strings.Cut(s, " ")
	remove, text, ok2 := strings.Cut(rest, " ")
	sp := Splice{Text: text}
	var err1, err2 error
	sp.Offset, err1 = strconv.Atoi(at)
	sp.Remove, err2 = strconv.Atoi(remove)
	if !ok1 || !ok2 || err1 != nil || err2 != nil || sp.Offset < 0 || sp.Remove < 0 {
		return Splice{}, fmt.Errorf("splice %.40q is not \"offset remove text\"", s)
	}
	return sp, nil
}

// UsageSplice is the edit that makes the body ask for a usage chunk. It must only
// be used when UsageAsked is false.
func (f Facts) UsageSplice() Splice {
	const ask = `"include_usage":true`
	switch {
	case f.includeUsage.present():
		return Splice{f.includeUsage.from, f.includeUsage.to - f.includeUsage.from, "true"}
	case f.streamOptions.present() && f.optionsEmpty:
		return Splice{f.streamOptions.from, f.streamOptions.to - f.streamOptions.from, "{" + ask + "}"}
	case f.streamOptions.present() && f.streamOptions.to-f.streamOptions.from == len("null"):
		return Splice{f.streamOptions.from, len("null"), "{" + ask + "}"}
	case f.streamOptions.present():
		return Splice{f.streamOptions.from + 1, 0, ask + ","}
	}
	return f.member(`"stream_options":{` + ask + `}`)
}

// ModelSplice is the edit that names a model in a body that names none.
func (f Facts) ModelSplice(model string) Splice {
	return f.member(`"model":` + Quote(model))
}

// Rename is the edit that makes the body name another model. The body names one.
func (f Facts) Rename(model string) Splice {
	return Splice{f.model.from, f.model.to - f.model.from, Quote(model)}
}

// member is the edit that adds a member at the head of the object.
func (f Facts) member(text string) Splice {
	if !f.empty {
		text += ","
	}
	return Splice{f.open, 0, text}
}

// Quote writes a JSON string.
func Quote(s string) string {
	b := []byte{'"'}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, fmt.Sprintf(`\u%04x`, c)...)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
