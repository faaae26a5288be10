package docs_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write cli.md anew")

// build makes the binary and gives its path.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokenbus")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/tokenbus").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// run gives the standard output of a command that must succeed. The environment is
// empty, so that nobody's settings or terminal matter.
func run(t *testing.T, path string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{}, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("tokenbus %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String()
}

// commands reads the list of commands in the help of the binary.
func commands(t *testing.T, help string) []string {
	t.Helper()
	_, list, ok := strings.Cut(help, "\nCommands:\n")
	if !ok {
		t.Fatalf("the help has no list of commands:\n%s", help)
	}
	var names []string
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "  ") && line[2] != ' ' {
			names = append(names, strings.Fields(line)[0])
		}
	}
	return names
}

// TestCLI: cli.md is what the binary says of itself. With -update it is written:
//
//	go test ./docs/reference -run TestCLI -update
func TestCLI(t *testing.T) {
	path := build(t)
	top := run(t, path, "--help")
	var b strings.Builder
	b.WriteString("# Commands\n\nGenerated from `--help`; do not edit. To write it anew: `go test ./docs/reference -run TestCLI -update`.\n\n")
	b.WriteString("Every flag is also a variable and a key of the configuration file: see [config.md](config.md).\n\n")
	section := func(title, help string) {
		b.WriteString("## " + title + "\n\n```\n" + strings.TrimSpace(help) + "\n```\n\n")
	}
	section("tokenbus", top)
	for _, name := range commands(t, top) {
		section("tokenbus "+name, run(t, path, name, "--help"))
	}
	got := strings.TrimSpace(b.String()) + "\n"
	if *update {
		if err := os.WriteFile("cli.md", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := read(t, "cli.md"); got != want {
		t.Errorf("cli.md is not what --help says; go test ./docs/reference -run TestCLI -update")
	}
}

// TestExampleConfig: every command that runs loads the example configuration.
func TestExampleConfig(t *testing.T) {
	path := build(t)
	for _, name := range []string{"up", "bus", "gateway", "scheduler", "agent", "sim"} {
		run(t, path, name, "--config", "../../deploy/examples/tokenbus.yaml", "--print-config")
	}
}
