package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Bounds of the work that a document can cause: aliases make a short text long.
const (
	maxAliases  = 100
	maxProblems = 100
	maxText     = 200 // bytes of a name
)

// reader walks the nodes of a document, and notes what is wrong on the way.
type reader struct {
	problems []error
	omitted  int
	aliases  int
}

// value is one value of a document: what stands at a path.
type value struct {
	path string
	line int // of its key, or of its item
	node *yaml.Node
}

// at is where a key of the value would be.
func (v value) at(key string) value {
	if v.path != "" {
		key = v.path + "." + key
	}
	return value{key, v.line, v.node}
}

func (v value) null() bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null"
}

// kind names the shape of the value in an error.
func (v value) kind() string {
	switch {
	case v.null():
		return "nothing"
	case v.node.Kind == yaml.MappingNode:
		return "a mapping"
	case v.node.Kind == yaml.SequenceNode:
		return "a list"
	}
	return strconv.Quote(shorten(v.node.Value))
}

func shorten(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}

func (r *reader) problem(v value, format string, args ...any) {
	if len(r.problems) == maxProblems {
		r.omitted++
		return
	}
	r.problems = append(r.problems, &Problem{Line: v.line, Path: v.path, Text: fmt.Sprintf(format, args...)})
}

// err joins the problems, those of earlier lines first.
func (r *reader) err() error {
	line := func(err error) int { return err.(*Problem).Line }
	slices.SortStableFunc(r.problems, func(a, b error) int { return line(a) - line(b) })
	if r.omitted > 0 {
		return errors.Join(append(r.problems, fmt.Errorf("and %d more", r.omitted))...)
	}
	return errors.Join(r.problems...)
}

// resolve follows an alias. It gives nil after too many of them.
func (r *reader) resolve(v value) *yaml.Node {
	for v.node.Kind == yaml.AliasNode {
		if r.aliases++; r.aliases > maxAliases || v.node.Alias == nil {
			if r.aliases == maxAliases+1 {
				r.problem(v, "the document has more than %d aliases", maxAliases)
			}
			return nil
		}
		v.node = v.node.Alias
	}
	return v.node
}

// each calls f for each key of a mapping, in the order of the document, and gives the
// keys that it has. It gives nil if the value is no mapping.
func (r *reader) each(v value, known []string, f func(key string, v value)) map[string]int {
	if v.node.Kind != yaml.MappingNode {
		r.problem(v, "a mapping is needed, not %s", v.kind())
		return nil
	}
	seen := make(map[string]int)
	r.mapping(v, known, seen, f)
	return seen
}

func (r *reader) mapping(v value, known []string, seen map[string]int, f func(key string, v value)) {
	var merges []value
	own := make(map[string]int)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		k := v.node.Content[i]
		at := value{path: v.path, line: k.Line, node: v.node.Content[i+1]}
		if k.Kind != yaml.ScalarNode {
			r.problem(at, "a key must be a plain name")
			continue
		}
		if k.ShortTag() == "!!merge" {
			merges = append(merges, at)
			continue
		}
		at.path = value{path: v.path}.at(shorten(k.Value)).path
		if first, twice := own[k.Value]; twice {
			r.problem(at, "the key stands on line %d already", first)
			continue
		}
		own[k.Value] = k.Line
		if _, mine := seen[k.Value]; mine {
			continue // what a mapping says itself comes before what it merges
		}
		seen[k.Value] = k.Line
		if !slices.Contains(known, k.Value) {
			r.unknown(at, k.Value, "key", known)
			continue
		}
		if at.node = r.resolve(at); at.node != nil {
			f(k.Value, at)
		}
	}
	for _, m := range merges {
		r.merge(m, known, seen, f)
	}
}

// merge reads the value of a "<<" key: a mapping, or a list of them.
func (r *reader) merge(v value, known []string, seen map[string]int, f func(key string, v value)) {
	if v.node = r.resolve(v); v.node == nil {
		return
	}
	switch v.node.Kind {
	case yaml.MappingNode:
		if r.aliases++; r.aliases <= maxAliases { // a mapping can merge itself
			r.mapping(v, known, seen, f)
		} else if r.aliases == maxAliases+1 {
			r.problem(v, "the document has more than %d aliases", maxAliases)
		}
	case yaml.SequenceNode:
		for _, n := range v.node.Content {
			if n = r.resolve(value{v.path, v.line, n}); n != nil && n.Kind == yaml.MappingNode {
				r.mapping(value{v.path, v.line, n}, known, seen, f)
			} else if n != nil {
				r.problem(v, "<< can merge mappings only")
			}
		}
	default:
		r.problem(v, "<< can merge mappings only")
	}
}

// unknown notes a name that is not one of the known ones.
func (r *reader) unknown(v value, name, what string, known []string) {
	if guess := suggest(name, known); guess != "" {
		r.problem(v, "unknown %s, did you mean %s?", what, guess)
		return
	}
	r.problem(v, "unknown %s; it is one of %s", what, strings.Join(known, ", "))
}

// need notes each key that a mapping lacks.
func (r *reader) need(v value, seen map[string]int, keys ...string) {
	for _, key := range keys {
		if _, ok := seen[key]; !ok {
			r.problem(v, "%s is missing", key)
		}
	}
}

// items calls f for each item of a list.
func (r *reader) items(v value, limit int, f func(i int, v value)) {
	switch {
	case v.null():
	case v.node.Kind != yaml.SequenceNode:
		r.problem(v, "a list is needed, not %s", v.kind())
	case len(v.node.Content) > limit:
		r.problem(v, "the list has %d items, more than the limit of %d", len(v.node.Content), limit)
	default:
		for i, n := range v.node.Content {
			at := value{fmt.Sprintf("%s[%d]", v.path, i), n.Line, n}
			if at.node = r.resolve(at); at.node != nil {
				f(i, at)
			}
		}
	}
}

// texts reads a list of different names.
func (r *reader) texts(v value, limit int) []string {
	var list []string
	r.items(v, limit, func(_ int, v value) {
		s := r.text(v)
		switch {
		case s == "":
		case slices.Contains(list, s):
			r.problem(v, "%q stands in the list already", s)
		default:
			list = append(list, s)
		}
	})
	return list
}
