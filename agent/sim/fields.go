package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// The functions of this file walk JSON that json.Valid has accepted, in place
// and without copies: bodies may be tens of megabytes of which a handful of
// fields matter. Names are matched exactly and the last of equal names wins,
// as in vLLM's parser; encoding/json would also take "Model" for "model".

var errNotObject = errors.New("input should be a valid dictionary or object to extract fields from")

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i.
func skipString(b []byte, i int) int {
	for i++; ; {
		j := bytes.IndexByte(b[i:], '"')
		end := i + j
		slashes := 0
		for end-1-slashes >= i && b[end-1-slashes] == '\\' {
			slashes++
		}
		i = end + 1
		if slashes%2 == 0 {
			return i
		}
	}
}

// skipValue returns the index after the value that starts at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return i
	default:
		for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
			i++
		}
		return i
	}
}

// eachField calls fn for each member of the object in raw.
func eachField(raw []byte, fn func(name string, value []byte)) error {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '{' {
		return errNotObject
	}
	for i = skipSpace(raw, i+1); raw[i] != '}'; {
		end := skipString(raw, i)
		name := text(raw[i:end])
		i = skipSpace(raw, skipSpace(raw, end)+1) // past the colon
		end = skipValue(raw, i)
		fn(name, raw[i:end])
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return nil
}

// eachElement calls fn for each element of the array in raw; it reports
// whether raw is an array.
func eachElement(raw []byte, fn func(value []byte)) bool {
	i := skipSpace(raw, 0)
	if i == len(raw) || raw[i] != '[' {
		return false
	}
	for i = skipSpace(raw, i+1); raw[i] != ']'; {
		end := skipValue(raw, i)
		fn(raw[i:end])
		if i = skipSpace(raw, end); raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return true
}

func isString(raw []byte) bool { return len(raw) > 0 && raw[0] == '"' }
func isNull(raw []byte) bool   { return len(raw) == 0 || raw[0] == 'n' }

// text returns the string in raw, or "" when it is no string.
func text(raw []byte) string {
	if !isString(raw) {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// decode unmarshals the named field unless it is absent or null.
func decode(name string, raw []byte, into any) error {
	if isNull(raw) {
		return nil
	}
	if json.Unmarshal(raw, into) != nil {
		return fmt.Errorf("input should be a valid %T for field '%s'", into, name)
	}
	return nil
}
