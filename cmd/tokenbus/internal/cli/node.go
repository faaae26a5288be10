package cli

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// resolve follows an alias. The line is where the value is used, not where the
// anchor stands.
func resolve(v *yaml.Node) (*yaml.Node, int) {
	if v.Kind == yaml.AliasNode && v.Alias != nil {
		return v.Alias, v.Line
	}
	return v, v.Line
}

// scalar returns the text of a single value exactly as it is written: what it
// means is for the flag's type to say, not for YAML ("on", 08, 1e3).
func scalar(v *yaml.Node) (text string, line int, err error) {
	v, line = resolve(v)
	if v.Kind != yaml.ScalarNode || isNull(v) {
		return "", line, fmt.Errorf("want a single value, got %s", kindName(v))
	}
	switch tag := v.ShortTag(); tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return v.Value, line, nil
	default:
		return "", line, fmt.Errorf("the tag %s is not supported", tag)
	}
}

func isNull(v *yaml.Node) bool {
	return v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null"
}

// kindName is the shape of v in an error text.
func kindName(v *yaml.Node) string {
	switch {
	case isNull(v):
		return "nothing"
	case v.Kind == yaml.MappingNode:
		return "a mapping"
	case v.Kind == yaml.SequenceNode:
		return "a list"
	case v.Kind == yaml.ScalarNode:
		return "a single value"
	}
	return "something else"
}

// orRoot names the section with that dotted prefix in an error text.
func orRoot(prefix string) string {
	if prefix == "" {
		return "top level"
	}
	return strings.TrimSuffix(prefix, ".")
}
