package agent

import (
	"bytes"
	"encoding/json"
)

// renamer puts the name under which a model was asked for into its answer: the value
// of "model" at the top of the JSON, or directly below "response" or "message", as the
// events of those APIs have it. A value that is not the name that the engine was sent
// stays, and so does every other byte. It takes the answer in pieces that may be cut
// anywhere, and keeps back only the value that it is looking at.
type renamer struct {
	from, to []byte // with their quotes
	events   bool   // the answer is a stream of events, of which each line begins anew

	out  []byte
	held []byte // of the value, opening quote included; nil if there is none

	depth    int
	inString bool
	escaped  bool
	text     [len("response") + 1]byte // the beginning of the last string
	n        int                       // its length, as far as text has room
	key      key                       // of the value that follows
	parent   key                       // of the object that is open at depth 2
}

// key is the meaning of an object's key.
type key byte

const (
	noKey key = iota
	otherKey
	modelKey
	openKey // response or message: its object may name the model
)

func newRenamer(from, to string, events bool) *renamer {
	quote := func(s string) []byte {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(s)
		return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	}
	return &renamer{from: quote(from), to: quote(to), events: events}
}

// feed takes a piece of the answer and gives what can be sent of it. It is valid until
// the next call.
func (r *renamer) feed(p []byte) []byte {
	r.out = r.out[:0]
	for _, c := range p {
		if r.events && c == '\n' {
			r.release()
			r.depth, r.inString, r.escaped, r.key, r.parent = 0, false, false, noKey, noKey
		} else if r.inString {
			r.within(c)
			continue
		} else {
			r.between(c)
			if r.held != nil {
				continue
			}
		}
		r.out = append(r.out, c)
	}
	return r.out
}

// flush gives what was kept back of an answer that has ended. What feed gave stays
// valid.
func (r *renamer) flush() []byte {
	rest := r.held
	r.held = nil
	return rest
}

func (r *renamer) release() {
	r.out = append(r.out, r.held...)
	r.held = nil
}

// within takes a byte of a string.
func (r *renamer) within(c byte) {
	if r.held != nil {
		if r.held = append(r.held, c); len(r.held) > len(r.from) {
			r.release()
		}
	} else {
		r.out = append(r.out, c)
	}
	switch {
	case r.escaped:
		r.escaped = false
	case c == '\\':
		r.escaped = true
	case c == '"':
		r.inString = false
		if bytes.Equal(r.held, r.from) {
			r.held = r.to
		}
		r.release()
		return
	}
	if r.n < len(r.text) {
		r.text[r.n] = c
		r.n++
	}
}

// between takes a byte outside of strings.
func (r *renamer) between(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		r.inString, r.n = true, 0
		if r.key == modelKey && (r.depth == 1 || r.depth == 2 && r.parent == openKey) {
			r.held = append(make([]byte, 0, len(r.from)+1), '"')
		}
	case ':':
		switch string(r.text[:r.n]) {
		case "model":
			r.key = modelKey
		case "response", "message":
			r.key = openKey
		default:
			r.key = otherKey
		}
		return
	case '{', '[':
		if r.depth++; r.depth == 2 {
			r.parent = noKey
			if c == '{' {
				r.parent = r.key
			}
		}
	case '}', ']':
		r.depth = max(r.depth-1, 0)
	}
	r.key = noKey
}
