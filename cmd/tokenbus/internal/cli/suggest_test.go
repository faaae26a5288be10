package cli

import "testing"

func TestEditDistance(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		want int
	}{
		"equal":      {"abc", "abc", 0},
		"empty":      {"", "abc", 3},
		"insertion":  {"abc", "abxc", 1},
		"deletion":   {"abc", "ac", 1},
		"change":     {"abc", "axc", 1},
		"swap":       {"listen", "litsen", 1},
		"two swaps":  {"abcd", "badc", 2},
		"classic":    {"kitten", "sitting", 3},
		"characters": {"grün", "gruen", 2},
	} {
		t.Run(name, func(t *testing.T) {
			checkEqual(t, "distance", editDistance(tc.a, tc.b), tc.want)
			checkEqual(t, "distance the other way", editDistance(tc.b, tc.a), tc.want)
		})
	}
}

func TestSuggest(t *testing.T) {
	names := []string{"up", "listen", "log-level", "log-format", "body-limit"}
	for name, tc := range map[string]struct{ given, want string }{
		"near":             {"listne", "listen"},
		"snake case":       {"body_limit", "body-limit"},
		"case":             {"Listen", "listen"},
		"short":            {"ip", "up"},
		"short and far":    {"xx", ""},
		"beginning":        {"body", "body-limit"},
		"two beginnings":   {"log", ""},
		"nothing in sight": {"capacity", ""},
		"empty":            {"", ""},
	} {
		t.Run(name, func(t *testing.T) { checkEqual(t, "suggestion", suggest(tc.given, names), tc.want) })
	}
}
