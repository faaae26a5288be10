package peek

import "fmt"

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
	b      []byte
	pos    int
	inline []span // contents of strings that hold data themselves, in order
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
