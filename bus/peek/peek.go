package peek

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"
)

// Facts are what routing needs to know of a body.
type Facts struct {
	Model      string // "" if the body names none
	Stream     bool
	UsageAsked bool  // stream_options.include_usage is true
	MaxTokens  int64 // declared output limit in tokens, -1 if none

	empty         bool // the object has no member
	open          int  // offset behind the opening brace
	streamOptions span // value of stream_options
	includeUsage  span // value of stream_options.include_usage
	optionsEmpty  bool
}

// span is a range of bytes; the zero span is absent.
type span struct{ from, to int }

func (s span) present() bool { return s.to > s.from }

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

// JSON reads the facts of a JSON body. The error is an *[Error].
func JSON(body []byte) (Facts, error) {
	f := Facts{MaxTokens: -1}
	s := &scanner{b: body}
	if s.peek() != '{' {
		if bytes.HasPrefix(body, []byte("\xef\xbb\xbf")) {
			return f, s.fail("the body starts with a byte order mark")
		}
		return f, s.fail("the body is not a JSON object")
	}
	s.pos++
	f.open = s.pos
	if s.peek() == '}' {
		s.pos++
		f.empty = true
	} else if err := f.members(s); err != nil {
		return f, err
	}
	if s.peek() != 0 || s.pos < len(s.b) {
		return f, s.fail("text follows the JSON object")
	}
	return f, nil
}

func (f *Facts) members(s *scanner) error {
	var seen [len(fields)]bool
	for {
		s.space()
		at := s.pos
		raw, escaped, err := s.str()
		if err != nil {
			return err
		}
		if err := s.colon(); err != nil {
			return err
		}
		i := field(raw, escaped)
		if i >= 0 {
			name := fields[i]
			if key := text(raw, escaped); key != name {
				return &Error{Field: name, Offset: at, Text: fmt.Sprintf("the key is spelt %q; it must be %q", key, name)}
			}
			if seen[i] {
				return &Error{Field: name, Offset: at, Text: "the key appears twice"}
			}
			seen[i] = true
			if err := f.read(s, i); err != nil {
				return err
			}
		} else if err := s.value(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.fail("a comma or a closing brace is expected")
		}
	}
}

// The fields that are read. A key that equals one of them but for case is an
// error.
var fields = [...]string{"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "max_output_tokens"}

// field gives the index of the field that a key names in any case, else -1.
func field(raw []byte, escaped bool) int {
	if !escaped && (len(raw) < len("model") || len(raw) > len("max_completion_tokens")+8) {
		return -1
	}
	key := text(raw, escaped)
	for i, name := range fields {
		if strings.EqualFold(key, name) {
			return i
		}
	}
	return -1
}

// read reads the value of fields[i].
func (f *Facts) read(s *scanner, i int) error {
	name := fields[i]
	c := s.peek()
	from := s.pos
	wrong := func(what string) error { return &Error{Field: name, Offset: from, Text: "must be " + what} }
	switch name {
	case "model":
		if c != '"' {
			return wrong("a string")
		}
		raw, escaped, err := s.str()
		if err != nil {
			return err
		}
		f.Model = text(raw, escaped)
		if f.Model == "" {
			return wrong("the name of a model, not empty")
		}
		return nil
	case "stream":
		if err := s.value(); err != nil {
			return err
		}
		switch string(s.b[from:s.pos]) {
		case "true":
			f.Stream = true
		case "false", "null":
		default:
			return wrong("true or false")
		}
		return nil
	case "stream_options":
		f.streamOptions = span{from, from}
		if c == '{' {
			if err := f.options(s); err != nil {
				return err
			}
		} else if err := s.value(); err != nil {
			return err
		}
		f.streamOptions.to = s.pos
		if c != '{' && string(s.b[from:s.pos]) != "null" {
			return wrong("an object")
		}
		return nil
	}
	if err := s.value(); err != nil {
		return err
	}
	if n, err := strconv.ParseInt(string(s.b[from:s.pos]), 10, 64); err == nil && n >= 0 {
		f.MaxTokens = max(f.MaxTokens, n)
	}
	return nil
}

// options reads the object at stream_options.
func (f *Facts) options(s *scanner) error {
	s.pos++
	if s.peek() == '}' {
		s.pos++
		f.optionsEmpty = true
		return nil
	}
	for {
		s.space()
		at := s.pos
		raw, escaped, err := s.str()
		if err != nil {
			return err
		}
		if err := s.colon(); err != nil {
			return err
		}
		s.space()
		from := s.pos
		if err := s.value(); err != nil {
			return err
		}
		if text(raw, escaped) == "include_usage" {
			if f.includeUsage.present() {
				return &Error{Field: "stream_options.include_usage", Offset: at, Text: "the key appears twice"}
			}
			f.includeUsage = span{from, s.pos}
			f.UsageAsked = string(s.b[from:s.pos]) == "true"
		}
		switch s.peek() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return nil
		default:
			return s.fail("a comma or a closing brace is expected")
		}
	}
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
	return f.member(`"model":` + quote(model))
}

// member is the edit that adds a member at the head of the object.
func (f Facts) member(text string) Splice {
	if !f.empty {
		text += ","
	}
	return Splice{f.open, 0, text}
}

// quote writes a JSON string.
func quote(s string) string {
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

// maxFormValue bounds the value of a form field that is read, in bytes.
const maxFormValue = 1024

// Form reads the facts of a multipart form: the fields model and stream. The error
// is an *[Error].
func Form(contentType string, body []byte) (Facts, error) {
	f := Facts{MaxTokens: -1}
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return f, &Error{Text: "the content type must be multipart/form-data with a boundary"}
	}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	var seen [2]bool
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return f, nil
		}
		if err != nil {
			return f, &Error{Offset: len(body), Text: "the multipart form is broken: " + err.Error()}
		}
		name := part.FormName()
		i := field([]byte(name), false)
		if i != 0 && i != 1 {
			continue
		}
		if name != fields[i] {
			return f, &Error{Field: fields[i], Text: fmt.Sprintf("the form field is spelt %q; it must be %q", name, fields[i])}
		}
		if seen[i] {
			return f, &Error{Field: name, Text: "the form field appears twice"}
		}
		seen[i] = true
		value, err := io.ReadAll(io.LimitReader(part, maxFormValue+1))
		if err != nil || len(value) > maxFormValue {
			return f, &Error{Field: name, Text: fmt.Sprintf("the form field is broken or longer than %d bytes", maxFormValue)}
		}
		if i == 0 {
			f.Model = string(value)
		} else {
			f.Stream, _ = strconv.ParseBool(strings.ToLower(string(value)))
		}
	}
}
