package sim

import (
	"encoding/json"
	"unicode/utf8"
)

// vocabulary holds the tokens the simulated model speaks. Each has exactly
// CharsPerToken characters; some need JSON escapes and some have more bytes
// than characters, because relays get exactly those wrong.
var vocabulary = [64]string{
	"The ", "sun ", "was ", "out ", "and ", "all ", "the ", "cat ",
	"sat ", "on a", " mat", ". It", " had", " one", " job", ": to",
	" see", " how", " far", " it ", "an g", "o. A", " bus", " ran",
	" by,", "full", " of ", "red ", "and ", "blue", "bits", "; so",
	" he ", "said", "\"hi\"", "then", " nap", "ped.", "\nBut", " as ",
	"the ", "day ", "wore", " on,", " tea", "came", " and", " the",
	" cup", " was", " hot", "! On", "ly n", "ow: ", "naïf", "日本語 ",
	"café", " 🚌 t", "2+2=", "4 = ", "four", ", ok", "? No", "\\o/ ",
}

// escaped is the vocabulary as the inside of JSON strings.
var escaped = func() (out [64]string) {
	for i, tok := range vocabulary {
		out[i] = jsonInner(tok)
	}
	return out
}()

// mix is the finalizer of splitmix64: a cheap, well-spread hash of one word.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// pick returns the vocabulary index of the token at position i.
func pick(seed uint64, i int) int {
	return int(mix(seed+uint64(i)) % uint64(len(vocabulary)))
}

// textSeed derives the seed of one choice. Length and tail of the prompt stand
// for all of it: telling prompts apart is enough, and prompts may be huge.
func textSeed(base uint64, request int64, prompt string, choice int) uint64 {
	h := mix(base ^ mix(uint64(request)) ^ mix(uint64(len(prompt))<<8|uint64(choice)))
	if len(prompt) > 256 {
		prompt = prompt[len(prompt)-256:]
	}
	for i := range len(prompt) {
		h = (h ^ uint64(prompt[i])) * 0x100000001b3
	}
	return mix(h)
}

// tokensOf applies the rule of CharsPerToken.
func tokensOf(chars int) int {
	return (chars + CharsPerToken - 1) / CharsPerToken
}

func countTokens(s string) int { return tokensOf(utf8.RuneCountInString(s)) }

// jsonInner returns s as the inside of a JSON string, without the quotes.
func jsonInner(s string) string {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			return escapeSlow(s)
		}
	}
	return s
}

// escapeSlow escapes as Python's json does with ensure_ascii off: control
// characters, quote and backslash only.
func escapeSlow(s string) string {
	out := make([]byte, 0, len(s)+8)
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r < 0x20:
			q, err := json.Marshal(string(r))
			if err != nil {
				continue // a control character always marshals
			}
			out = append(out, q[1:len(q)-1]...)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

// pieces splits s into tokens of CharsPerToken characters, escaped for JSON.
func pieces(s string) []string {
	var out []string
	start, chars := 0, 0
	for i := range s {
		if chars == CharsPerToken {
			out = append(out, jsonInner(s[start:i]))
			start, chars = i, 0
		}
		chars++
	}
	if start < len(s) {
		out = append(out, jsonInner(s[start:]))
	}
	return out
}
