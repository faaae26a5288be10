package peek

import (
	"bytes"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// Hints are what a body says that helps to choose an agent. They never make a body
// invalid: a value of another type or out of range counts as absent, and of several
// the last good one counts.
type Hints struct {
	N             int    // answers asked for, 1 to [MaxN]; 1 if the body does not say
	Priority      int64  // the body's own priority, if PriorityGiven
	PriorityGiven bool   // priority is an integer
	CacheKey      string // prompt_cache_key, see [MaxHint]
	User          string // user, see [MaxHint]

	size     int // bytes of the body
	salt     span
	sections [sections]span
	inline   []span // of the whole body, in order
}

// Bounds of hints.
const (
	MaxN = 1000 // a larger n counts as this

	// MaxHint bounds the strings, in bytes as they are written in the body. In the
	// place of a longer one stands its hash, in hexadecimal.
	MaxHint = 256
)

// The sections of a body: the values that make up its prompt, in the order in which
// an engine lays them out, as far as that is the same for all models.
const (
	toolsSection = iota
	systemSection
	instructionsSection
	querySection
	documentsSection
	messagesSection
	promptSection
	inputSection
	sections
)

// SessionKey is what the body says of the session that it belongs to, "" if
// nothing.
func (h *Hints) SessionKey() string {
	if h.CacheKey != "" {
		return h.CacheKey
	}
	return h.User
}

// longestHint is the longest key that is a hint.
const longestHint = len("prompt_cache_key")

// hint reads the value of a key that is none of fields.
func (h *Hints) hint(s *scanner, key []byte, escaped bool) error {
	s.space()
	from := s.pos
	if err := s.value(); err != nil {
		return err
	}
	if escaped {
		key = []byte(text(key, escaped))
	}
	if len(key) > longestHint {
		return nil
	}
	v := span{from, s.pos}
	raw := s.b[from:s.pos]
	section := -1
	switch string(key) {
	case "tools":
		section = toolsSection
	case "system":
		section = systemSection
	case "instructions":
		section = instructionsSection
	case "query":
		section = querySection
	case "documents":
		section = documentsSection
	case "messages":
		section = messagesSection
	case "prompt":
		section = promptSection
	case "input":
		section = inputSection
	case "cache_salt":
		h.salt = v.orAbsent(raw)
	case "prompt_cache_key":
		short(&h.CacheKey, raw)
	case "user":
		short(&h.User, raw)
	case "priority":
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			h.Priority, h.PriorityGiven = n, true
		}
	case "n":
		if n, err := strconv.ParseUint(string(raw), 10, 64); err == nil && n > 0 {
			h.N = int(min(n, MaxN))
		}
	}
	if section >= 0 {
		h.sections[section] = v.orAbsent(raw)
	}
	return nil
}

// orAbsent gives the span, or the absent one if the value is null.
func (s span) orAbsent(raw []byte) span {
	if string(raw) == "null" {
		return span{}
	}
	return s
}

// short reads a string of at most MaxHint bytes.
func short(dst *string, value []byte) {
	if value[0] != '"' {
		return
	}
	raw := value[1 : len(value)-1]
	if len(raw) > MaxHint {
		*dst = strconv.FormatUint(xxhash.Sum64(raw), 16)
		return
	}
	*dst = text(raw, bytes.IndexByte(raw, '\\') >= 0)
}
