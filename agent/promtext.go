package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Bounds of a metrics page, in bytes.
const (
	maxPage     = 16 << 20
	maxPageLine = 1 << 20
	pageBuffer  = 64 << 10 // of the reader, until a line needs more
)

var (
	errPageSize = fmt.Errorf("%w: the page has more than %d bytes", errNoMetrics, maxPage)
	errPageLine = fmt.Errorf("%w: a line has more than %d bytes", errNoMetrics, maxPageLine)
)

// scanner reads a page of Prometheus' text format and hands the samples that are
// needed to an enginePage. It keeps its buffers, so that reading again allocates
// nothing. A line that it can't read is passed over; one that no newline ends is
// too, since it may have been cut.
type scanner struct {
	buf    []byte
	name   []byte // of the metric or label at hand, if it was quoted
	quoted []byte // the label value at hand, if it had escapes
}

func (s *scanner) scan(r io.Reader, p *enginePage) error {
	if s.buf == nil {
		s.buf = make([]byte, pageBuffer)
	}
	p.reset()
	start, end, total, idle := 0, 0, 0, 0
	for {
		n, err := r.Read(s.buf[end:])
		if total += n; total > maxPage {
			return errPageSize
		}
		searched := end
		end += n
		for {
			i := bytes.IndexByte(s.buf[searched:end], '\n')
			if i < 0 {
				break
			}
			if searched+i-start > maxPageLine {
				return errPageLine
			}
			if err := s.line(s.buf[start:searched+i], p); err != nil {
				return err
			}
			start = searched + i + 1
			searched = start
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 0:
			idle = 0
		default:
			if idle++; idle == 100 {
				return io.ErrNoProgress
			}
		}
		if end == len(s.buf) {
			if start == 0 {
				if len(s.buf) > maxPageLine {
					return errPageLine
				}
				wider := make([]byte, min(2*len(s.buf), maxPageLine+pageBuffer))
				copy(wider, s.buf)
				s.buf = wider
			} else {
				end = copy(s.buf, s.buf[start:end])
				start = 0
			}
		}
	}
}

// line reads one line: a name, labels in braces if there are any, a value, and a
// timestamp that does not matter. A name may also stand within the braces, quoted.
func (s *scanner) line(b []byte, p *enginePage) error {
	b = trimBlanks(b)
	if len(b) == 0 || b[0] == '#' {
		return nil
	}
	var t target
	named := b[0] != '{'
	if named {
		name, rest, ok := readName(b, &s.name, true)
		if !ok {
			return nil
		}
		if t, ok = targets[string(name)]; !ok {
			return nil
		}
		b = trimBlanks(rest)
	}
	l := labels{le: math.NaN()}
	if len(b) > 0 && b[0] == '{' {
		var ok bool
		if b, ok = s.labels(b[1:], &t, named, &l); !ok || t.kind == noTarget {
			return nil
		}
	}
	if i := bytes.IndexAny(b, " \t"); i >= 0 {
		b = b[:i]
	}
	v, ok := parseFloat(b)
	if !ok {
		return nil
	}
	return p.add(t, l, v)
}

// labels reads what follows an opening brace, and the blanks behind it.
func (s *scanner) labels(b []byte, t *target, named bool, l *labels) (rest []byte, ok bool) {
	for {
		b = trimBlanks(b)
		if len(b) > 0 && b[0] == '}' {
			return trimBlanks(b[1:]), named
		}
		name, rest, ok := readName(b, &s.name, false)
		rest = trimBlanks(rest)
		if !ok || len(rest) == 0 {
			return nil, false
		}
		if rest[0] != '=' {
			if named {
				return nil, false
			}
			named = true
			*t = targets[string(name)]
		} else {
			rest = trimBlanks(rest[1:])
			var value []byte
			if value, rest, ok = s.value(rest); !ok {
				return nil, false
			}
			l.set(name, value)
			rest = trimBlanks(rest)
		}
		switch {
		case len(rest) > 0 && rest[0] == ',':
			b = rest[1:]
		case len(rest) > 0 && rest[0] == '}':
			b = rest
		default:
			return nil, false
		}
	}
}

// value reads a quoted label value.
func (s *scanner) value(b []byte) (value, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	b = b[1:]
	i := bytes.IndexAny(b, `"\`)
	if i >= 0 && b[i] == '"' {
		return b[:i], b[i+1:], true
	}
	return unquote(b, s.quoted[:0], &s.quoted)
}

// readName reads the name of a metric, in which colons are allowed, or of a label.
// A part in quotes ends it.
func readName(b []byte, scratch *[]byte, colons bool) (name, rest []byte, ok bool) {
	i := 0
	for i < len(b) && (isLetter(b[i]) || colons && b[i] == ':' || i > 0 && '0' <= b[i] && b[i] <= '9') {
		i++
	}
	if i < len(b) && b[i] == '"' {
		name, rest, ok = unquote(b[i+1:], append((*scratch)[:0], b[:i]...), scratch)
		return name, rest, ok && len(name) > 0
	}
	return b[:i], b[i:], i > 0
}

// unquote appends to the text what stands before the closing quote, without its
// escapes. The scratch buffer takes the text over, to be used again.
func unquote(b, text []byte, scratch *[]byte) (_, rest []byte, ok bool) {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			*scratch = text
			return text, b[i+1:], true
		case c != '\\':
			text = append(text, c)
		case i+1 < len(b) && (b[i+1] == '\\' || b[i+1] == '"'):
			i++
			text = append(text, b[i])
		case i+1 < len(b) && b[i+1] == 'n':
			i++
			text = append(text, '\n')
		default:
			return nil, nil, false
		}
	}
	return nil, nil, false
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

func trimBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	return b
}

// parseFloat reads a number as Prometheus does: without Go's underscores and
// hexadecimal exponents.
func parseFloat(b []byte) (float64, bool) {
	if bytes.ContainsAny(b, "pP_") {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	return v, err == nil
}
