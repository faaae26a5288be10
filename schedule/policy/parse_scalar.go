package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// text reads a name. What YAML would take for a number or a date is a name, too.
func (r *reader) text(v value) string {
	s := v.node.Value
	switch {
	case v.node.Kind != yaml.ScalarNode || v.null():
		r.problem(v, "a text is needed, not %s", v.kind())
	case s == "" || strings.TrimSpace(s) != s:
		r.problem(v, "%q is empty, or has spaces around it", shorten(s))
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		r.problem(v, "%q has characters that can't be printed", shorten(s)) // names go into headers
	case len(s) > maxText:
		r.problem(v, "the text has %d bytes, more than the limit of %d", len(s), maxText)
	default:
		return s
	}
	return ""
}

// oneOf reads one of some words.
func (r *reader) oneOf(v value, words ...string) string {
	s := r.text(v)
	if s == "" || slices.Contains(words, s) {
		return s
	}
	hint := ""
	if guess := suggest(s, words); guess != "" {
		hint = fmt.Sprintf(", did you mean %s?", guess)
	}
	r.problem(v, "%q is not one of %s%s", s, strings.Join(words, ", "), hint)
	return ""
}

// count reads a whole number from 0 up. Nothing is 0.
func (r *reader) count(v value, limit int64) int64 {
	if v.null() {
		return 0
	}
	var n int64
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" || v.node.Decode(&n) != nil || n < 0 || n > limit {
		r.problem(v, "a whole number from 0 to %d is needed, not %s", limit, v.kind())
		return 0
	}
	return n
}

// number reads a number that is neither infinite nor NaN.
func (r *reader) number(v value) (float64, bool) {
	var f float64
	tag := ""
	if v.node.Kind == yaml.ScalarNode {
		tag = v.node.ShortTag()
	}
	if tag != "!!int" && tag != "!!float" || v.node.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		r.problem(v, "a finite number is needed, not %s", v.kind())
		return 0, false
	}
	return f, true
}

// share reads a fraction. Nothing is 0.
func (r *reader) share(v value) float64 {
	if v.null() {
		return 0
	}
	f, ok := r.number(v)
	if ok && (f < 0 || f > 1) {
		r.problem(v, "a number from 0 to 1 is needed, not %s", v.kind())
		return 0
	}
	return f
}

// flag reads true or false.
func (r *reader) flag(v value) bool {
	var b bool
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" || v.node.Decode(&b) != nil {
		r.problem(v, "true or false is needed, not %s", v.kind())
	}
	return b
}

// duration reads a time like 500ms. Nothing is 0.
func (r *reader) duration(v value, limit time.Duration) time.Duration {
	if v.null() {
		return 0
	}
	d, err := time.ParseDuration(v.node.Value)
	if v.node.Kind != yaml.ScalarNode || err != nil || d < 0 || d > limit {
		r.problem(v, "a time from 0s to %s like 500ms or 2s is needed, not %s", limit, v.kind())
		return 0
	}
	return d
}
