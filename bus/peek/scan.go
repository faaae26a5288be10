package peek

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a body.
const maxDepth = 512

// Error is a problem with a body: which field it is about, if any, and where.
type Error struct {
	Field  string // top-level field, or ""
	Offset int    // byte offset
	Text   string
}

func (e *Error) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("%s: %s (at byte %d)", e.Field, e.Text, e.Offset)
	}
	return fmt.Sprintf("%s (at byte %d)", e.Text, e.Offset)
}

// scanner walks over JSON text. Its methods leave pos behind what they read.
type scanner struct {
	b   []byte
	pos int
}

func (s *scanner) fail(format string, args ...any) *Error {
	return &Error{Offset: s.pos, Text: fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek gives the next byte after white space, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.pos == len(s.b) {
		return 0
	}
	return s.b[s.pos]
}

// str skips a string and gives its raw content, between the quotes.
func (s *scanner) str() (raw []byte, escaped bool, err *Error) {
	if s.pos >= len(s.b) || s.b[s.pos] != '"' {
		return nil, false, s.fail("a string is expected")
	}
	start := s.pos + 1
	i := start
	for {
		n := bytes.IndexByte(s.b[i:], '"')
		if n < 0 {
			s.pos = len(s.b)
			return nil, false, s.fail("a string does not end")
		}
		part := s.b[i : i+n]
		if j := bytes.IndexByte(part, '\\'); j >= 0 {
			escaped = true
			if i, err = s.escape(i + j); err != nil {
				return nil, false, err
			}
			continue
		}
		i += n
		break
	}
	raw = s.b[start:i]
	for j, c := range raw {
		if c < ' ' {
			s.pos = start + j
			return nil, false, s.fail("a control character stands in a string")
		}
	}
	s.pos = i + 1
	return raw, escaped, nil
}

// escape checks the escape sequence at i and gives the offset behind it.
func (s *scanner) escape(i int) (int, *Error) {
	if i+1 < len(s.b) {
		switch s.b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			return i + 2, nil
		case 'u':
			if i+6 <= len(s.b) && hex4(s.b[i+2:i+6]) >= 0 {
				return i + 6, nil
			}
		}
	}
	s.pos = i
	return 0, s.fail("an escape sequence is wrong")
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// text resolves the escapes of a raw string that str has checked.
func text(raw []byte, escaped bool) string {
	if !escaped {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			out = append(out, c)
			i++
			continue
		}
		switch c = raw[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(raw[i+2 : i+6])
			i += 6
			if 0xD800 <= r && r < 0xDC00 && i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				if low := hex4(raw[i+2 : i+6]); 0xDC00 <= low && low < 0xE000 {
					r = (r-0xD800)<<10 | (low - 0xDC00) + 0x10000
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		default:
			out = append(out, c)
		}
		i += 2
	}
	return string(out)
}

// value skips one value of any kind.
func (s *scanner) value() *Error {
	var stack [maxDepth]byte
	depth := 0
	for {
		switch c := s.peek(); c {
		case '{', '[':
			if depth == maxDepth {
				return s.fail("nested deeper than %d", maxDepth)
			}
			stack[depth] = c
			depth++
			s.pos++
			if s.peek() == c+2 { // '}' is '{'+2, ']' is '['+2
				s.pos++
				depth--
				break
			}
			if c == '{' {
				if err := s.key(); err != nil {
					return err
				}
			}
			continue
		case '"':
			if _, _, err := s.str(); err != nil {
				return err
			}
		default:
			if err := s.scalar(); err != nil {
				return err
			}
		}
		// A value ended; close what it closes.
		for {
			if depth == 0 {
				return nil
			}
			open := stack[depth-1]
			switch s.peek() {
			case ',':
				s.pos++
				if open == '{' {
					if err := s.key(); err != nil {
						return err
					}
				}
			case open + 2:
				s.pos++
				depth--
				continue
			default:
				return s.fail("a comma or a closing bracket is expected")
			}
			break
		}
	}
}

// key skips a key and its colon.
func (s *scanner) key() *Error {
	s.space()
	if _, _, err := s.str(); err != nil {
		return err
	}
	return s.colon()
}

func (s *scanner) colon() *Error {
	if s.peek() != ':' {
		return s.fail("a colon is expected")
	}
	s.pos++
	return nil
}

// scalar skips a number, true, false or null.
func (s *scanner) scalar() *Error {
	start := s.pos
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ',', '}', ']', ' ', '\t', '\n', '\r', ':', '"', '{', '[':
		default:
			s.pos++
			continue
		}
		break
	}
	word := s.b[start:s.pos]
	switch string(word) {
	case "true", "false", "null":
		return nil
	}
	if !number(word) {
		s.pos = start
		if len(word) == 0 {
			return s.fail("a value is expected")
		}
		return s.fail("a value is not JSON")
	}
	return nil
}

// number reports whether b is a JSON number (RFC 8259 §6).
func number(b []byte) bool {
	i := 0
	digits := func() bool {
		from := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > from
	}
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return false
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(b)
}
