package agent

import (
	"bytes"
	"encoding/json"

	"github.com/tokenbus/tokenbus/bus"
)

// maxHeld bounds an incomplete event that is kept to be looked at, in bytes. A
// longer one is not the usage chunk.
const maxHeld = 64 << 10

// tailBytes is how much of the end of a stream is kept to see whether it finished.
const tailBytes = 2 << 10

// sseStream watches a stream of server-sent events go by. It changes nothing but
// this: when strip is set, the event that holds only usage is left out.
//
// Without strip every byte passes at once. With it, the bytes of an event that is
// not complete wait for its end, because they may turn out to be the usage chunk.
type sseStream struct {
	api   bus.API
	strip bool

	held     []byte // the event that is not complete
	big      bool   // it is too long to be looked at; its bytes pass
	lineFull bool   // the present line is not empty
	afterCR  bool
	out      []byte
	tail     []byte
	used     bus.Usage
	hasUsage bool
}

// feed takes bytes as read and gives the bytes to forward. The result is valid
// until the next call and may alias p.
func (s *sseStream) feed(p []byte) []byte {
	s.tail = append(s.tail, p...)
	if over := len(s.tail) - tailBytes; over > tailBytes {
		s.tail = append(s.tail[:0], s.tail[over:]...)
	}
	s.out = s.out[:0]
	same := s.strip && len(s.held) == 0 // so far the output is p itself
	at := 0
	for at < len(p) {
		n := s.eventEnd(p[at:])
		if n < 0 {
			break
		}
		ev := p[at : at+n]
		whole := ev
		if len(s.held) > 0 {
			s.held = append(s.held, ev...)
			whole = s.held
		}
		drop := !s.big && s.look(whole) && s.strip
		if drop && same {
			s.out, same = append(s.out, p[:at]...), false
		}
		if !same && !drop {
			s.out = append(s.out, whole...)
		}
		s.held, s.big = s.held[:0], false
		at += n
	}
	rest := p[at:]
	if !s.strip {
		s.hold(rest)
		return p
	}
	if same && (len(rest) == 0 || s.big) {
		return p
	}
	if same {
		s.out = append(s.out, p[:at]...)
	}
	if s.big {
		s.out = append(s.out, rest...)
		return s.out
	}
	if s.hold(rest); s.big {
		s.out = append(append(s.out, s.held...), rest...)
		s.held = s.held[:0]
	}
	return s.out
}

// hold keeps the beginning of an event, unless it gets too long.
func (s *sseStream) hold(p []byte) {
	switch {
	case s.big || len(p) == 0:
	case len(s.held)+len(p) <= maxHeld:
		s.held = append(s.held, p...)
	default:
		s.big = true
		if !s.strip {
			s.held = s.held[:0]
		}
	}
}

// flush gives what is held at the end of the stream.
func (s *sseStream) flush() []byte {
	if !s.strip || s.look(s.held) {
		return nil
	}
	return s.held
}

// eventEnd gives the offset behind the blank line that ends the present event, or
// -1. Lines end in LF, CR or CRLF (HTML Living Standard, §9.2.5).
func (s *sseStream) eventEnd(p []byte) int {
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c == '\n' && s.afterCR {
			s.afterCR = false
			continue
		}
		s.afterCR = c == '\r'
		if c != '\n' && c != '\r' {
			s.lineFull = true
			line := p[i:]
			if j := bytes.IndexByte(line, '\n'); j >= 0 {
				line = line[:j]
			}
			if j := bytes.IndexByte(line, '\r'); j >= 0 {
				line = line[:j]
			}
			i += len(line) - 1
			continue
		}
		if s.lineFull {
			s.lineFull = false
			continue
		}
		if s.afterCR && i+1 < len(p) && p[i+1] == '\n' {
			s.afterCR = false
			i++
		}
		return i + 1
	}
	return -1
}

var (
	usageKey  = []byte(`"usage"`)
	usageNull = []byte(`"usage":null`)
)

// look meters the usage that an event tells, and reports whether it tells nothing
// else.
func (s *sseStream) look(ev []byte) bool {
	if !bytes.Contains(ev, usageKey) || bytes.Contains(ev, usageNull) && bytes.Count(ev, usageKey) == 1 {
		return false
	}
	data := eventData(ev)
	var chunk struct {
		Choices  *[]json.RawMessage `json:"choices"`
		Usage    *usageText         `json:"usage"`
		Response *struct {
			Usage *usageText `json:"usage"`
		} `json:"response"`
		Message *struct {
			Usage *usageText `json:"usage"`
		} `json:"message"`
	}
	if json.Unmarshal(data, &chunk) != nil {
		return false
	}
	said := func(t *usageText) {
		if t != nil {
			t.merge(&s.used)
			s.hasUsage = true
		}
	}
	said(chunk.Usage)
	if chunk.Response != nil {
		said(chunk.Response.Usage)
	}
	if chunk.Message != nil {
		said(chunk.Message.Usage)
	}
	return chunk.Usage != nil && chunk.Choices != nil && len(*chunk.Choices) == 0
}

// eventData joins the data lines of an event.
func eventData(ev []byte) []byte {
	var data []byte
	lines := 0
	for len(ev) > 0 {
		line := ev
		if i := bytes.IndexAny(ev, "\r\n"); i >= 0 {
			line, ev = ev[:i], ev[i+1:]
		} else {
			ev = nil
		}
		if v, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if lines++; lines == 1 {
				data = v
			} else {
				data = append(append(data[:len(data):len(data)], '\n'), v...)
			}
		}
	}
	return bytes.TrimSpace(data)
}

// finished reports whether the stream came to the end that its dialect has, or
// told an error of its own. A dialect that is not known always has.
func (s *sseStream) finished() bool {
	var marks []string
	switch s.api {
	case bus.Chat, bus.Completions:
		marks = []string{"[DONE]", `"finish_reason":"`, `"finish_reason": "`, `"error"`}
	case bus.Responses:
		marks = []string{"response.completed", "response.failed", "response.incomplete", `"error"`, "[DONE]"}
	case bus.Messages:
		marks = []string{"message_stop", `"error"`}
	default:
		return true
	}
	for _, m := range marks {
		if bytes.Contains(s.tail, []byte(m)) {
			return true
		}
	}
	return false
}
