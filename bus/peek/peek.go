package peek

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Facts are what routing needs to know of a body.
type Facts struct {
	Model      string // "" if the body names none
	Stream     bool
	UsageAsked bool  // stream_options.include_usage is true
	MaxTokens  int64 // declared output limit in tokens, -1 if none
	Hints

	empty         bool // the object has no member
	open          int  // offset behind the opening brace
	model         span // value of model
	streamOptions span // value of stream_options
	includeUsage  span // value of stream_options.include_usage
	optionsEmpty  bool
}

// none are the facts of a body that says nothing.
func none() Facts { return Facts{MaxTokens: -1, Hints: Hints{N: 1}} }

// span is a range of bytes; the zero span is absent.
type span struct{ from, to int }

func (s span) present() bool { return s.to > s.from }

// JSON reads the facts of a JSON body. The error is an *[Error].
func JSON(body []byte) (Facts, error) {
	f := none()
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
	f.size, f.inline = len(body), s.inline
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
			if !equal(raw, escaped, name) {
				return &Error{Field: name, Offset: at, Text: fmt.Sprintf("the key is spelt %q; it must be %q", text(raw, escaped), name)}
			}
			if seen[i] {
				return &Error{Field: name, Offset: at, Text: "the key appears twice"}
			}
			seen[i] = true
			if err := f.read(s, i); err != nil {
				return err
			}
		} else if err := f.hint(s, raw, escaped); err != nil {
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
	key := string(raw) // on the stack: it does not leave this function
	if escaped {
		key = text(raw, escaped)
	}
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
		f.model = span{from, s.pos}
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
