package processes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// consoleStep is a command of a page, and what it prints; "…" there is anything.
type consoleStep struct {
	command string
	prints  *regexp.Regexp
	text    string
}

// console reads the console blocks of a page.
func console(t *testing.T, page string) (steps []consoleStep) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for part := range strings.SplitSeq("\n"+block[1], "\n$ ") {
			if strings.TrimSpace(part) == "" {
				continue
			}
			command, want, _ := strings.Cut(part, "\n")
			want = strings.TrimSpace(want)
			steps = append(steps, consoleStep{command, printing(want), want})
		}
	}
	return steps
}

// printing is the pattern of what a page says that a command prints: a line that is only
// "…" is any number of lines.
func printing(want string) *regexp.Regexp {
	pattern := `^`
	for line := range strings.SplitSeq(want, "\n") {
		if line == "…" {
			pattern += `(?:[^\n]*\n)*`
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*`) + `\n`
	}
	return regexp.MustCompile(pattern + `$`)
}

// TestNATSCLI: the plain nats CLI does what docs/nats.md shows. It needs the CLI, in
// PATH or named by NATS_CLI; the checks of the repository install it.
func TestNATSCLI(t *testing.T) {
	cli := os.Getenv("NATS_CLI")
	if cli == "" {
		var err error
		if cli, err = exec.LookPath("nats"); err != nil {
			t.Skip("the nats CLI is not in PATH; go install github.com/nats-io/natscli/nats@v0.5.0")
		}
	}
	nats, http := freePort(t), freePort(t)
	start(t, "up", "up", "--demo", "--data", t.TempDir(), "--nats-listen", nats, "--listen", http, "--admin-listen", "", "--flush-interval", "500ms")
	eventually(t, 20*time.Second, "it is ready", func() bool { return strings.Contains(get("http://"+http+"/v1/models"), "demo/large") })
	home := t.TempDir()
	run := func(command string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // what goes on until it is stopped is stopped
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "NATS_URL=nats://"+nats, "NO_COLOR=1", "COLUMNS=500", "PATH="+filepath.Dir(cli)+":"+os.Getenv("PATH"))
		cmd.WaitDelay = time.Second
		out, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)) + "\n"
	}
	steps := console(t, "../../docs/nats.md")
	if len(steps) < 20 {
		t.Fatalf("the page has only %d commands", len(steps))
	}
	for _, s := range steps {
		var out string
		for end := time.Now().Add(10 * time.Second); ; { // a counter is written some time later
			if out = run(s.command); s.prints.MatchString(out) || time.Now().After(end) {
				break
			}
		}
		if !s.prints.MatchString(out) {
			t.Errorf("$ %s\nprints\n%s\n\nand the page says\n%s", s.command, out, s.text)
		}
	}
}
