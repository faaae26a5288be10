package main

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDiff: what is printed around changes.
func TestDiff(t *testing.T) {
	long := "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
	cases := map[string]struct{ was, is, want string }{
		"equal":             {long, long, ""},
		"new":               {"", "a\nb\n", "@@ -1 +1 @@\n+a\n+b\n"},
		"gone":              {"a\n", "", "@@ -1 +1 @@\n-a\n"},
		"a line":            {long, strings.Replace(long, "5", "x", 1), "@@ -2 +2 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
		"both ends":         {long, "0\n" + strings.TrimSuffix(long, "9\n"), "@@ -1 +1 @@\n+0\n 1\n 2\n 3\n@@ -6 +7 @@\n 6\n 7\n 8\n-9\n"},
		"a missing newline": {"a\nb\n", "a\nb", "@@ -1 +1 @@\n a\n-b\n+b (no newline at the end)\n"},
	}
	for name, c := range cases {
		var b strings.Builder
		if err := writeDiff(&b, c.was, c.is); err != nil || b.String() != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, b.String(), c.want)
		}
	}
}

// TestDiffLines: the lines of a diff make both texts.
func TestDiffLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 20)
		was, is := lines.Draw(t, "was"), lines.Draw(t, "is")
		checkDiff(t, diffLines(was, is), was, is)
	})
	was, is := slices.Repeat([]string{"a", "b"}, 5000), slices.Repeat([]string{"b", "c"}, 5000)
	checkDiff(t, diffLines(was, is), was, is) // too long for the table
}

func checkDiff(t interface{ Fatalf(string, ...any) }, lines []diffLine, was, is []string) {
	var gotWas, gotIs []string
	for _, l := range lines {
		if l.mark != '+' {
			gotWas = append(gotWas, l.text)
		}
		if l.mark != '-' {
			gotIs = append(gotIs, l.text)
		}
	}
	if !slices.Equal(gotWas, was) || !slices.Equal(gotIs, is) {
		t.Fatalf("%v does not lead from %v to %v", lines, was, is)
	}
}
