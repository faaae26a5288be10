package sim

import (
	"maps"
	"slices"
	"strings"
)

// toolCall is a call the simulated model decides to make.
type toolCall struct {
	name      string // escaped for JSON
	arguments string // a JSON object
}

// chooseTool decides whether the reply is a tool call: when tool_choice
// demands one, or when the last user message contains "tool:", which the name
// of the tool may follow. Without a name it is the first tool.
func chooseTool(q *request, user string) *toolCall {
	type tool struct {
		name   string
		schema []byte
	}
	var tools []tool
	eachElement(q.tools, func(raw []byte) {
		var t tool
		var visit func(name string, value []byte)
		visit = func(name string, value []byte) {
			switch name {
			case "name":
				t.name = text(value)
			case "parameters", "input_schema":
				t.schema = value
			case "function":
				_ = eachField(value, visit) // what is no object has no name either
			}
		}
		if eachField(raw, visit) == nil && t.name != "" {
			tools = append(tools, t)
		}
	})
	if len(tools) == 0 || text(q.choice) == "none" {
		return nil
	}
	mode, wanted := text(q.choice), ""
	if mode == "" && !isNull(q.choice) {
		var visit func(name string, value []byte)
		visit = func(name string, value []byte) {
			switch name {
			case "type":
				if mode == "" {
					mode = text(value)
				}
			case "name":
				wanted = text(value)
			case "function":
				_ = eachField(value, visit)
			}
		}
		_ = eachField(q.choice, visit) // any other shape demands nothing
	}
	if mode != "required" && mode != "any" && wanted == "" {
		_, after, ok := strings.Cut(user, "tool:")
		if !ok {
			return nil
		}
		if words := strings.Fields(after); len(words) > 0 {
			wanted = words[0]
		}
	}
	chosen := tools[0]
	for _, t := range tools {
		if t.name == wanted {
			chosen = t
		}
	}
	return &toolCall{name: jsonInner(chosen.name), arguments: arguments(chosen.schema)}
}

// arguments makes an object with a value for each property of the schema.
func arguments(schema []byte) string {
	kinds := map[string]string{}
	_ = eachField(schema, func(name string, value []byte) { // no schema, no properties
		if name != "properties" {
			return
		}
		_ = eachField(value, func(property string, value []byte) {
			kinds[property] = "string"
			_ = eachField(value, func(name string, value []byte) {
				if name == "type" && isString(value) {
					kinds[property] = text(value)
				}
			})
		})
	})
	var b strings.Builder
	b.WriteByte('{')
	for i, property := range slices.Sorted(maps.Keys(kinds)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(`"` + jsonInner(property) + `": `)
		switch kinds[property] {
		case "integer", "number":
			b.WriteString("7")
		case "boolean":
			b.WriteString("true")
		case "array":
			b.WriteString("[]")
		case "object":
			b.WriteString("{}")
		case "null":
			b.WriteString("null")
		default:
			b.WriteString(`"a simulated value"`)
		}
	}
	b.WriteByte('}')
	return b.String()
}
