package agent

import (
	"bytes"
	"encoding/json"

	"github.com/tokenbus/tokenbus/bus"
)

// maxHeld bounds an incomplete event that is kept to be looked at, in bytes. A
// longer one is not the usage chunk.
const maxHeld = 64 << 10

// The last events of a stream are kept to see whether it finished: the end, and a
// usage event and a [DONE] behind it. Of a long one the beginning is enough.
const (
	keptEvents = 3
	keptBytes  = 8 << 10
)

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
	keptBig  bool   // its beginning is kept
	lineFull bool   // the present line is not empty
	afterCR  bool
	cutCR    bool // the last read ended behind a CR that ended an event
	dropped  bool // that event was left out
	out      []byte
	kept     [keptEvents][]byte // a ring
	next     int                // in kept
	used     bus.Usage
	hasUsage bool
}

// feed takes bytes as read and gives the bytes to forward. The result is valid
// until the next call and may alias p.
func (s *sseStream) feed(p []byte) []byte {
	whole := p
	s.out = s.out[:0]
	same := s.strip && len(s.held) == 0 // so far the output is p itself
	if s.cutCR && len(p) > 0 {
		// The LF of a CRLF belongs to the event before it.
		s.cutCR = false
		if p[0] == '\n' {
			p, s.afterCR = p[1:], false
			if s.strip && !s.dropped {
				s.out, same = append(s.out, '\n'), false
			}
		}
	}
	at := 0
	for at < len(p) {
		n := s.eventEnd(p[at:])
		if n < 0 {
			break
		}
		ev := p[at : at+n]
		if len(s.held) > 0 {
			s.held = append(s.held, ev...)
			ev = s.held
		}
		drop := !s.big && len(ev) <= maxHeld && s.look(ev) && s.strip
		s.keep(ev)
		if drop && same {
			s.out, same = append(s.out, p[:at]...), false
		}
		if !same && !drop {
			s.out = append(s.out, ev...)
		}
		s.held, s.big = s.held[:0], false
		at += n
		s.cutCR, s.dropped = s.afterCR && at == len(p), drop
	}
	rest := p[at:]
	if !s.strip {
		s.hold(rest)
		return whole
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

// hasData reports whether an event has a data line: others tell nothing.
func hasData(ev []byte) bool {
	return bytes.HasPrefix(ev, []byte("data:")) || bytes.Contains(ev, []byte("\ndata:")) || bytes.Contains(ev, []byte("\rdata:"))
}

// keep remembers the beginning of an event among the last ones that have data.
func (s *sseStream) keep(ev []byte) {
	if !hasData(ev) {
		return
	}
	if s.big && s.keptBig {
		s.keptBig = false
		return // its beginning was kept when it grew too long
	}
	s.kept[s.next] = append(s.kept[s.next][:0], ev[:min(len(ev), keptBytes)]...)
	s.next = (s.next + 1) % keptEvents
}

// hold keeps the beginning of an event, unless it gets too long.
func (s *sseStream) hold(p []byte) {
	switch {
	case s.big || len(p) == 0:
	case len(s.held)+len(p) <= maxHeld:
		s.held = append(s.held, p...)
	default:
		s.keep(append(s.held[:len(s.held):len(s.held)], p...))
		s.big, s.keptBig = true, true
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
	switch s.api {
	case bus.Chat, bus.Completions, bus.Responses, bus.Messages:
	default:
		return true
	}
	choices := make(map[int]bool) // whether each choice has finished, as far as the last events tell
	for i := range keptEvents {
		if final(s.kept[(s.next+i)%keptEvents], choices) {
			return true
		}
	}
	if hasData(s.held) {
		before := len(choices)
		if final(s.held, choices) {
			return true
		}
		if len(choices) == before && !json.Valid(eventData(s.held)) {
			return false // cut within an event
		}
	}
	for _, finished := range choices {
		if !finished {
			return false
		}
	}
	return len(choices) > 0
}

// finalTypes are the types of the events that end a Responses or Messages stream.
var finalTypes = map[string]bool{
	"response.completed": true, "response.failed": true, "response.incomplete": true, "message_stop": true, "error": true,
}

// final reports whether an event ends a stream, in any of the dialects, and notes
// in choices what it tells of each choice.
func final(ev []byte, choices map[int]bool) bool {
	data := eventData(ev)
	if string(data) == "[DONE]" {
		return true
	}
	if len(ev) >= keptBytes {
		// Only its beginning is here: the name of the event must do.
		name, _, _ := bytes.Cut(ev, []byte("\n"))
		name, ok := bytes.CutPrefix(name, []byte("event:"))
		return ok && finalTypes[string(bytes.TrimSpace(name))]
	}
	var chunk struct {
		Type    string          `json:"type"`
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			Index        int     `json:"index"`
			FinishReason *string `json:"finish_reason"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &chunk) != nil {
		return false
	}
	for _, c := range chunk.Choices {
		choices[c.Index] = choices[c.Index] || c.FinishReason != nil
	}
	return finalTypes[chunk.Type] || len(chunk.Error) > 0 && string(chunk.Error) != "null"
}
