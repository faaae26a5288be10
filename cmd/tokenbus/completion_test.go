package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCompletion runs the script of bash in bash.
func TestCompletion(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	p, err := kong.New(&grammar{}, kong.Name("tokenbus"))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	if err := writeCompletion(&script, "bash", words(p.Model.Node, nil)); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		line []string
		want []string
	}{
		"commands": {[]string{"tokenbus", "dr"}, []string{"drain"}},
		"flags":    {[]string{"tokenbus", "drain", "gpu-1", "--wa"}, []string{"--wait"}},
		"nothing":  {[]string{"tokenbus", "drain", "--nonsense"}, nil},
	}
	for name, c := range cases {
		quoted := "'" + strings.Join(c.line, "' '") + "'"
		cmd := exec.Command(bash, "--norc", "-c", script.String()+"COMP_WORDS=("+quoted+"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _tokenbus; echo \"${COMPREPLY[@]}\"")
		out, err := cmd.CombinedOutput()
		if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
	for _, shell := range []string{"zsh", "fish"} {
		script.Reset()
		if err := writeCompletion(&script, shell, words(p.Model.Node, nil)); err != nil || !strings.Contains(script.String(), "drain") {
			t.Errorf("%s: %v\n%s", shell, err, script.String())
		}
	}
}
