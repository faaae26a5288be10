package peek

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// A string that begins with inlineScheme and is longer than inlineBytes is a file
// in the body, such as an image, and not text.
const (
	inlineScheme = "data:"
	inlineBytes  = 1 << 10
)

// str skips a string and gives its raw content, between the quotes.
func (s *scanner) str() (raw []byte, escaped bool, err *Error) {
	if s.pos >= len(s.b) || s.b[s.pos] != '"' {
		return nil, false, s.fail("a string is expected")
	}
	start := s.pos + 1
	i, quote := start, -1
	for {
		if quote < i { // what seemed to be the end was escaped
			n := bytes.IndexByte(s.b[i:], '"')
			if n < 0 {
				s.pos = len(s.b)
				return nil, false, s.fail("a string does not end")
			}
			quote = i + n
		}
		j := bytes.IndexByte(s.b[i:quote], '\\')
		if j < 0 {
			break
		}
		escaped = true
		if i, err = s.escape(i + j); err != nil {
			return nil, false, err
		}
	}
	raw = s.b[start:quote]
	if j := control(raw); j >= 0 {
		s.pos = start + j
		return nil, false, s.fail("a control character stands in a string")
	}
	if len(raw) > inlineBytes && string(raw[:len(inlineScheme)]) == inlineScheme {
		s.inline = append(s.inline, span{start, quote})
	}
	s.pos = quote + 1
	return raw, escaped, nil
}

// control gives the index of the first control character, or -1. It looks at eight
// bytes at a time: the subtraction sets the high bit of a byte below a space, and of
// no other before it.
func control(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if w := binary.LittleEndian.Uint64(b[i:]); (w-ones*' ')&^w&highs != 0 {
			break
		}
	}
	for ; i < len(b); i++ {
		if b[i] < ' ' {
			return i
		}
	}
	return -1
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

// equal reports whether a raw string that str has checked says name.
func equal(raw []byte, escaped bool, name string) bool {
	if escaped {
		return text(raw, escaped) == name
	}
	return string(raw) == name
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
