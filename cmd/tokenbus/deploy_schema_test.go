package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHelmSchema: the schema knows every value of the chart, and finds mistakes.
func TestHelmSchema(t *testing.T) {
	s := schema(t)
	for mistake, set := range map[string]map[string]any{
		"values.gatway":                 {"gatway": map[string]any{}},
		"values.gateway.replica":        {"gateway": map[string]any{"replica": 1}},
		"values.gateway.replicas":       {"gateway": map[string]any{"replicas": 0}},
		"values.gateway.requestTimeout": {"gateway": map[string]any{"requestTimeout": "10"}},
		"values.gateway.service.port":   {"gateway": map[string]any{"service": map[string]any{"port": "http"}}},
		"values.bus.replicas":           {"bus": map[string]any{"replicas": 2}},
		"values.logLevel":               {"logLevel": "loud"},
		"values.agents[0].engineURL":    {"agents": []any{map[string]any{"id": "a"}}},
		"values.agents[0].id":           {"agents": []any{map[string]any{"id": "A b", "engineURL": "http://x"}}},
		"values.existingSecret":         {"existingSecret": ""},
	} {
		problems := checkSchema(s, chartValues(t, set), "values")
		if len(problems) != 1 || !strings.HasPrefix(problems[0], mistake+":") {
			t.Errorf("%s: %q", mistake, problems)
		}
	}
}

func schema(t *testing.T) map[string]any {
	t.Helper()
	var s map[string]any
	text, err := os.ReadFile(chart + "/values.schema.json")
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkSchema validates against the part of JSON Schema that the chart uses; a word
// that it does not know is a problem, too.
func checkSchema(schema map[string]any, v any, path string) (problems []string) {
	say := func(format string, args ...any) {
		problems = append(problems, path+": "+fmt.Sprintf(format, args...))
	}
	if want, got := schema["type"], kindOf(v); got != want {
		say("is of the type %s, not %s", got, want)
		return problems
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, word := range sortedKeys(schema) {
		want := schema[word]
		switch word {
		case "$schema", "title", "properties", "type":
		case "enum":
			if !slices.ContainsFunc(want.([]any), func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v) }) {
				say("%v is none of %v", v, want)
			}
		case "minimum":
			if number(v) < want.(float64) {
				say("%v is less than %v", v, want)
			}
		case "maximum":
			if number(v) > want.(float64) {
				say("%v is more than %v", v, want)
			}
		case "minLength":
			if float64(len(v.(string))) < want.(float64) {
				say("is too short")
			}
		case "pattern":
			if !regexp.MustCompile(want.(string)).MatchString(v.(string)) {
				say("%q does not match %s", v, want)
			}
		case "items":
			for i, e := range v.([]any) {
				problems = append(problems, checkSchema(want.(map[string]any), e, fmt.Sprintf("%s[%d]", path, i))...)
			}
		case "required":
			for _, name := range want.([]any) {
				if _, ok := v.(map[string]any)[name.(string)]; !ok {
					problems = append(problems, fmt.Sprintf("%s.%s: is missing", path, name))
				}
			}
		case "additionalProperties":
			for _, name := range sortedKeys(v.(map[string]any)) {
				if _, ok := properties[name]; !ok && want == false {
					problems = append(problems, fmt.Sprintf("%s.%s: is not known", path, name))
				}
			}
		default:
			say("the schema's %s is not understood", word)
		}
	}
	if m, ok := v.(map[string]any); ok {
		for _, name := range sortedKeys(m) {
			if sub, ok := properties[name].(map[string]any); ok {
				problems = append(problems, checkSchema(sub, m[name], path+"."+name)...)
			}
		}
	}
	return problems
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		return "number"
	}
	return "null"
}

func number(v any) float64 {
	if i, ok := v.(int); ok {
		return float64(i)
	}
	f, _ := v.(float64)
	return f
}
