package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"
)

// file reads one configuration file into settings.
type file struct {
	model    *model
	path     string
	selected map[*kong.Node]bool // the command that is about to run, and its parents
	active   map[*kong.Flag]bool // their flags
	settings settings
	problems []error
}

// problem notes what is wrong at a line.
func (f *file) problem(line int, format string, args ...any) {
	f.problems = append(f.problems, fmt.Errorf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...)))
}

// load reads the whole document. An empty one sets nothing.
func (f *file) load(data []byte) {
	loader, err := yaml.NewLoader(strings.NewReader(string(data)))
	if err != nil {
		f.problems = append(f.problems, fmt.Errorf("read %s: %w", f.path, err))
		return
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return
	case err != nil:
		f.syntax(err)
		return
	}
	switch err := loader.Load(&second); {
	case err == nil:
		f.problem(second.Line, "a second document; want a single one")
	case !errors.Is(err, io.EOF):
		f.syntax(err)
	}
	root := &doc
	if doc.Kind == yaml.DocumentNode {
		if len(doc.Content) == 0 {
			return
		}
		root = doc.Content[0]
	}
	f.section(f.model.app.Node, root, "", 0)
}

// syntax notes an error of the YAML reader at its line.
func (f *file) syntax(err error) {
	var at *yaml.LoadError
	if errors.As(err, &at) && at.Mark.Line > 0 {
		f.problem(at.Mark.Line, "not valid YAML: %s", at.Message)
		return
	}
	f.problems = append(f.problems, fmt.Errorf("%s: not valid YAML: %w", f.path, err))
}

// section reads the mapping that configures n. The prefix is the dotted path of
// its keys; depth counts the sections around it.
func (f *file) section(n *kong.Node, v *yaml.Node, prefix string, depth int) {
	v, line := resolve(v)
	if isNull(v) {
		return
	}
	if v.Kind != yaml.MappingNode {
		f.problem(line, "%s: want a mapping of settings, got %s", orRoot(prefix), kindName(v))
		return
	}
	scope := f.model.scope(n)
	seen := map[string]int{}
	for i := 0; i+1 < len(v.Content); i += 2 {
		k, value := v.Content[i], v.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			f.problem(k.Line, "%s: a key must be a plain name", orRoot(prefix))
			continue
		}
		path := prefix + k.Value
		sub, flags := child(n, k.Value), scope[k.Value]
		name := k.Value
		if sub != nil {
			name = sub.Name // so that an alias counts as the same key
		}
		if first, dup := seen[name]; dup {
			f.problem(k.Line, "%s: duplicate key, first set on line %d", path, first)
			continue
		}
		seen[name] = k.Line
		target, _ := resolve(value)
		switch {
		case sub != nil && (len(flags) == 0 || target.Kind == yaml.MappingNode):
			f.section(sub, value, path+".", depth+1)
		case len(flags) > 0:
			f.set(n, flags, k, value, path, depth)
		default:
			f.unknown(n, scope, k, path)
		}
	}
}

// unknown notes a key that is neither a section nor a setting at this place.
func (f *file) unknown(n *kong.Node, scope map[string][]*kong.Flag, k *yaml.Node, path string) {
	candidates := map[string]bool{}
	for _, c := range n.Children {
		if !c.Hidden && c.Type == kong.CommandNode {
			candidates[c.Name] = true
		}
	}
	for name, flags := range scope {
		if !flags[0].Hidden {
			candidates[name] = true
		}
	}
	hint := didYouMean(k.Value, keys(candidates))
	switch owners := f.model.owners(k.Value); {
	case f.model.flagsOnlyName(k.Value):
		hint = "; it is a flag only"
	case owners != "":
		hint = "; it is a setting of " + owners
	}
	f.problem(k.Line, "%s: unknown key%s", path, hint)
}

// set checks a value for every flag that it is meant for, and keeps it if the
// section belongs to the command that is about to run.
func (f *file) set(n *kong.Node, flags []*kong.Flag, k, v *yaml.Node, path string, depth int) {
	reported := map[string]bool{}
	for _, flag := range flags {
		applies := f.selected[n] && f.active[flag]
		value, line, err := flagValue(flag, v)
		text := ""
		if err != nil {
			text = err.Error()
		} else if applies || !readsFiles(flag) {
			if err := check(flag, value); err != nil {
				text = badValue(flag, value, err)
			}
		}
		if text != "" {
			if !reported[text] {
				f.problem(line, "%s: %s", path, text)
			}
			reported[text] = true
			continue
		}
		if old, ok := f.settings[flag]; applies && (!ok || old.depth <= depth) {
			f.settings[flag] = setting{value: value, source: fmt.Sprintf("%s:%d", f.path, k.Line), depth: depth}
		}
	}
}

// flagValue turns a YAML value into what the flag's mapper reads, a string or a
// [list]. It also returns the line where the value stands.
func flagValue(flag *kong.Flag, v *yaml.Node) (value any, line int, err error) {
	v, line = resolve(v)
	switch {
	case isNull(v):
		return nil, line, errors.New(`no value; remove the key, or write "" for an empty one`)
	case v.Kind == yaml.SequenceNode && flag.IsSlice():
		elements := list{}
		for _, element := range v.Content {
			text, at, err := scalar(element)
			if err != nil {
				return nil, at, err
			}
			elements = append(elements, text)
		}
		return elements, line, nil
	case v.Kind == yaml.MappingNode && flag.IsMap():
		elements := list{}
		for i := 0; i+1 < len(v.Content); i += 2 {
			name, at, err := scalar(v.Content[i])
			if err != nil {
				return nil, at, err
			}
			text, at, err := scalar(v.Content[i+1])
			if err != nil {
				return nil, at, err
			}
			elements = append(elements, name+"="+text)
		}
		return elements, line, nil
	}
	text, _, err := scalar(v)
	return text, line, err
}
