package agent

import (
	"bytes"

	"github.com/tokenbus/tokenbus/bus"
)

// maxUsage bounds the text of a usage object that is read, in bytes.
const maxUsage = 4 << 10

// usageText is a usage object in any of the dialects.
type usageText struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	TotalTokens         int64 `json:"total_tokens"`
	InputTokens         int64 `json:"input_tokens"`
	OutputTokens        int64 `json:"output_tokens"`
	CacheRead           int64 `json:"cache_read_input_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	InputTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"input_tokens_details"`
}

// merge takes the larger of what was known and what this object says: usage is
// cumulative, and the messages dialect tells input and output in two events.
func (t usageText) merge(u *bus.Usage) {
	prompt := max(t.PromptTokens, t.InputTokens)
	if prompt == 0 && t.CompletionTokens == 0 && t.OutputTokens == 0 {
		prompt = t.TotalTokens // embeddings and scores of some engines
	}
	u.Prompt = max(u.Prompt, prompt)
	u.Completion = max(u.Completion, t.CompletionTokens, t.OutputTokens)
	u.Cached = max(u.Cached, t.PromptTokensDetails.CachedTokens, t.InputTokensDetails.CachedTokens, t.CacheRead)
}

// bodyUsage finds the top-level usage object of a JSON answer while its bytes go
// by, without keeping them.
type bodyUsage struct {
	depth    int
	inString bool
	escaped  bool
	key      []byte // the last string at depth 1, up to a few bytes
	keyDone  bool
	capture  []byte
	taking   bool
	found    []byte
}

func (b *bodyUsage) write(p []byte) {
	for i := 0; i < len(p); {
		if b.inString {
			i += b.string(p[i:])
			continue
		}
		c := p[i]
		i++
		if b.taking && len(b.capture) < maxUsage {
			b.capture = append(b.capture, c)
		}
		switch c {
		case '"':
			b.inString = true
			if b.depth == 1 && !b.taking {
				b.key, b.keyDone = b.key[:0], false
			}
		case '{', '[':
			b.depth++
			if c == '{' && b.depth == 2 && b.keyDone && string(b.key) == "usage" {
				b.taking, b.capture = true, append(b.capture[:0], '{')
			}
		case '}', ']':
			b.depth--
			if b.taking && b.depth == 1 {
				b.taking, b.found = false, b.capture
			}
		case ':':
			b.keyDone = b.depth == 1
		case ',':
			b.keyDone = false
		}
	}
}

// string goes through a string and gives how far it came.
func (b *bodyUsage) string(p []byte) int {
	n := 0
	for n < len(p) {
		if b.escaped {
			b.escaped = false
			n++
			continue
		}
		j := bytes.IndexByte(p[n:], '"')
		k := bytes.IndexByte(p[n:min(len(p), n+max(j, 0)+1)], '\\')
		if j < 0 {
			k = bytes.IndexByte(p[n:], '\\')
		}
		if k >= 0 && (j < 0 || k < j) {
			n += k + 1
			b.escaped = true
			continue
		}
		if j < 0 {
			n = len(p)
			break
		}
		b.keep(p[:n+j], true)
		b.inString = false
		return n + j + 1
	}
	b.keep(p[:n], false)
	return n
}

func (b *bodyUsage) keep(s []byte, end bool) {
	if b.taking {
		if len(b.capture)+len(s) < maxUsage {
			b.capture = append(b.capture, s...)
			if end {
				b.capture = append(b.capture, '"')
			}
		}
		return
	}
	if b.depth == 1 && !b.keyDone && len(b.key) < 16 {
		b.key = append(b.key, s[:min(len(s), 16)]...)
	}
}

// usage gives what was found.
func (b *bodyUsage) usage() (u bus.Usage, ok bool) {
	if b.found == nil {
		return u, false
	}
	readUsage(b.found, &u)
	return u, true
}

// readUsage reads the counts of a usage object by their names, without a decoder:
// it is done for every answer.
func readUsage(obj []byte, u *bus.Usage) {
	t := usageText{
		PromptTokens: count(obj, "prompt_tokens"), CompletionTokens: count(obj, "completion_tokens"), TotalTokens: count(obj, "total_tokens"),
		InputTokens: count(obj, "input_tokens"), OutputTokens: count(obj, "output_tokens"), CacheRead: count(obj, "cache_read_input_tokens"),
	}
	t.PromptTokensDetails.CachedTokens = count(member(obj, "prompt_tokens_details"), "cached_tokens")
	t.InputTokensDetails.CachedTokens = count(member(obj, "input_tokens_details"), "cached_tokens")
	t.merge(u)
}

// count gives the number that an object has for a key, 0 if there is none.
func count(obj []byte, key string) int64 {
	var n int64
	for _, c := range member(obj, key) {
		if c < '0' || c > '9' || n > 1<<53 {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// member gives the text of an object from the value of a key on, nil if the object
// itself has no such key; objects within it do not count.
func member(obj []byte, key string) []byte {
	depth := 0
	for i := 0; i < len(obj); i++ {
		switch obj[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return nil
			}
		case '"':
			end := i + 1
			for end < len(obj) && obj[end] != '"' {
				if obj[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(obj) {
				return nil
			}
			name := obj[i+1 : end]
			i = end
			if depth == 1 && string(name) == key {
				rest := bytes.TrimLeft(obj[end+1:], " \t\r\n")
				if rest, ok := bytes.CutPrefix(rest, []byte{':'}); ok {
					return bytes.TrimLeft(rest, " \t\r\n")
				}
			}
		}
	}
	return nil
}
