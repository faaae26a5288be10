package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

var errNoMessages = errors.New("field 'messages' should be a valid non-empty list")

// chatPrompt renders messages with the simulation's chat template, which is
// "role: content\n" for each message. It also returns the last user message,
// and the last message when that is the assistant's.
func chatPrompt(system, messages []byte) (prompt, user, assistant string, err error) {
	var b strings.Builder
	b.Grow(len(messages))
	if !isNull(system) {
		b.WriteString("system: ")
		b.WriteString(content(system))
		b.WriteByte('\n')
	}
	count := 0
	ok := eachElement(messages, func(raw []byte) {
		var role, body string
		if e := eachField(raw, func(name string, value []byte) {
			switch name {
			case "role":
				role = text(value)
			case "content", "output":
				body = content(value)
			}
		}); e != nil {
			err = e
		}
		count++
		b.WriteString(role)
		b.WriteString(": ")
		b.WriteString(body)
		b.WriteByte('\n')
		assistant = ""
		switch role {
		case "user":
			user = body
		case "assistant":
			assistant = body
		}
	})
	if !ok || count == 0 {
		err = errNoMessages
	}
	return b.String(), user, assistant, err
}

// content renders a message's content: a string, or a list of parts. A part
// that is no text, such as an image, stands as the hash of its bytes, so
// different images make different prompts of the same length.
func content(raw []byte) string {
	if isString(raw) {
		return text(raw)
	}
	var b strings.Builder
	eachElement(raw, func(part []byte) {
		if isString(part) {
			b.WriteString(text(part))
			return
		}
		var kind, words string
		if eachField(part, func(name string, value []byte) {
			switch name {
			case "type":
				kind = text(value)
			case "text":
				words = text(value)
			}
		}) != nil {
			return
		}
		if strings.HasSuffix(kind, "text") {
			b.WriteString(words)
			return
		}
		sum := sha256.Sum256(part)
		b.WriteString("<" + kind + ":" + hex.EncodeToString(sum[:8]) + ">")
	})
	return b.String()
}

// prompts reads the shapes a prompt may have: a string, a list of strings, a
// list of token ids, a list of such lists. A token id stands for the
// vocabulary entry it falls on.
func prompts(raw []byte) (list []string, ok bool) {
	if isString(raw) {
		return []string{text(raw)}, true
	}
	var ids strings.Builder
	ok = eachElement(raw, func(value []byte) {
		switch value[0] {
		case '"':
			list = append(list, text(value))
		case '[':
			inner, _ := prompts(value)
			list = append(list, inner...)
		case '{':
			list = append(list, content([]byte("["+string(value)+"]")))
		default:
			ids.WriteString(spell(value))
		}
	})
	if ids.Len() > 0 {
		list = append(list, ids.String())
	}
	return list, ok && len(list) > 0
}

// spell returns the text of the token id in raw.
func spell(raw []byte) string {
	var id uint64
	for _, c := range raw {
		if c >= '0' && c <= '9' {
			id = id*10 + uint64(c-'0')
		}
	}
	return vocabulary[id%uint64(len(vocabulary))]
}
