package cli

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"
)

// PrintConfig writes the settings of the selected command in the form of the
// configuration file, each with a comment that says where it comes from: flag,
// env NAME, FILE:LINE or default. What is not set at all is a comment. Secrets
// and credentials in URLs are masked; apart from them the output can be loaded.
func (p *Parsed) PrintConfig(w io.Writer) error {
	fromFlag := map[*kong.Flag]bool{}
	var b strings.Builder
	indent := ""
	for _, el := range p.Path {
		switch {
		case el.Flag != nil && !el.Resolved:
			fromFlag[el.Flag] = true
		case el.Command != nil:
			fmt.Fprintf(&b, "%s%s:\n", indent, el.Command.Name)
			indent += "  "
		}
	}
	for _, flag := range p.Flags() {
		source := p.settings[flag].source
		switch {
		case p.model.flagsOnly[flag]:
			continue
		case fromFlag[flag]:
			source = "flag"
		case source == "" && flag.Hidden:
			continue
		case source == "" && isUnset(flag):
			fmt.Fprintf(&b, "%s# %s: not set\n", indent, flag.Name)
			continue
		case source == "":
			source = "default"
		}
		line, err := yamlLine(flag, source)
		if err != nil {
			return err
		}
		b.WriteString(indent + line)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return nil
}

// isUnset reports whether a flag that nobody gave a value has none.
func isUnset(flag *kong.Flag) bool {
	switch v := flag.Target; v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	}
	return false
}

// yamlLine is the setting of flag as one line of YAML.
func yamlLine(flag *kong.Flag, source string) (string, error) {
	value := yamlValue(flag.Target)
	value.LineComment = source
	out, err := yaml.Dump(&yaml.Node{
		Kind:    yaml.MappingNode,
		Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: flag.Name}, value},
	}, yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
	if err != nil {
		return "", fmt.Errorf("write --%s as YAML: %w", flag.Name, err)
	}
	return string(out), nil
}

// yamlValue is a setting as the configuration file would hold it, on one line.
func yamlValue(v reflect.Value) *yaml.Node {
	if text, ok := v.Interface().(encoding.TextMarshaler); ok && !isNilPointer(v) {
		if out, err := text.MarshalText(); err == nil {
			return yamlString(string(out))
		}
	}
	if s, ok := v.Interface().(fmt.Stringer); ok && !isNilPointer(v) {
		return yamlString(s.String())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
		}
		return yamlValue(v.Elem())
	case reflect.Slice:
		out := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for i := range v.Len() {
			out.Content = append(out.Content, yamlValue(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int {
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
		})
		for _, name := range names {
			out.Content = append(out.Content, yamlValue(name), yamlValue(v.MapIndex(name)))
		}
		return out
	case reflect.String:
		return yamlString(v.String())
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(v.Interface())}
}

// yamlString quotes what would not be read back as the same text.
func yamlString(s string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: redact(s)}
	if strings.ContainsAny(s, "\n\r") {
		node.Style = yaml.DoubleQuotedStyle
	}
	return node
}

func isNilPointer(v reflect.Value) bool {
	return v.Kind() == reflect.Pointer && v.IsNil()
}
