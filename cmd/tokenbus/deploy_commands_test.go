package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// checkCommand parses a command line and an environment with the real grammar.
func checkCommand(t *testing.T, where string, args, env []string) {
	t.Helper()
	if err := parseCommand(args, env); err != nil {
		t.Errorf("%s: tokenbus %s: %v", where, strings.Join(args, " "), err)
	}
}

func parseCommand(args, env []string) error {
	if len(args) == 0 {
		return errors.New("there is no command")
	}
	// Files of the machine that a command line is for are not on this one.
	var here []string
	for _, a := range args {
		switch a {
		case "/etc/tokenbus/tokenbus.yaml", "tokenbus.yaml":
			a = "../../deploy/examples/tokenbus.yaml"
		}
		here = append(here, a)
	}
	_, err := cli.Parse(&grammar{}, here, cli.Environ(env), cli.Stdout(io.Discard), cli.Kong(kong.Name("tokenbus")))
	return err
}

// commandLine is a command line in a text: alone on its line, also in a comment and
// behind a prompt or a path, or in back-quotes, or in brackets.
var (
	commandLine = []*regexp.Regexp{
		regexp.MustCompile(`(?m)^(?:\w+=)?[#\s]*(?:\$ )?(?:/\S+/)?tokenbus (\w+(?: .*)?)$`),
		regexp.MustCompile("`tokenbus (\\w+(?: [^`\n]*)?)`"),
		regexp.MustCompile(`\(tokenbus (\w+ -[^)\n]*)\)`),
	}
	word        = regexp.MustCompile(`[^\s"']*(?:"[^"]*"|'[^']*')[^\s"']*|\S+`)
	placeholder = regexp.MustCompile(`^[A-Z][A-Z_]*$|…`)
)

// commandsIn gives the command lines of a text, without the program and comments.
func commandsIn(text string) (lines [][]string) {
	for _, r := range commandLine {
		for _, m := range r.FindAllStringSubmatch(text, -1) {
			line, _, _ := strings.Cut(m[1], " #")
			var args []string
			for _, w := range word.FindAllString(line, -1) {
				if w = strings.Trim(w, `"'`); !placeholder.MatchString(w) {
					args = append(args, w)
				}
			}
			lines = append(lines, args)
		}
	}
	return lines
}

// TestDeployCommands: every command line in deploy/ is one that the binary takes.
func TestDeployCommands(t *testing.T) {
	found := make(map[string]bool) // by command
	err := filepath.WalkDir("../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "/templates/") {
			return err // templates are rendered by another test
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, args := range commandsIn(string(b)) {
			found[args[0]] = true
			checkCommand(t, path, args, nil)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"bus", "gateway", "scheduler", "agent"} {
		if !found[command] {
			t.Errorf("no command line of tokenbus %s was found", command)
		}
	}
	for _, bad := range []string{"gateway --lisen 127.0.0.1:1", "serve", "bus extra", "agent --capacity many"} {
		if parseCommand(strings.Fields(bad), nil) == nil {
			t.Errorf("tokenbus %s: nothing is found wrong", bad)
		}
	}
}

// TestCompose: the compose files parse, alone and together; their commands and
// variables are ours; what they mount is here; and there is no secret in them.
func TestCompose(t *testing.T) {
	const dir = "../../deploy/compose/"
	secrets := map[string]string{"BUS_PASSWORD": "pw1", "BUS_OPERATOR_PASSWORD": "pw2"}
	variable := regexp.MustCompile(`\$\{(\w+)(:\?[^}]*)?\}`)
	load := func(name string) map[string]any {
		text, err := os.ReadFile(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		filled := variable.ReplaceAllStringFunc(string(text), func(v string) string {
			name := variable.FindStringSubmatch(v)[1]
			if secrets[name] == "" {
				t.Errorf("%s: nobody sets %s", name, v)
			}
			return secrets[name]
		})
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(filled), 0o600); err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		readYAML(t, path, &doc)
		return doc
	}
	one, three := load("compose.yaml"), load("compose.cluster.yaml")
	checkServices(t, dir, one)
	merge(one, three)
	checkServices(t, dir, one)
	if n := len(one["services"].(map[string]any)); n != 11 {
		t.Errorf("%d services in the cluster, want 11", n)
	}
	text, err := os.ReadFile(dir + "env.example")
	if err != nil {
		t.Fatal(err)
	}
	for name := range secrets {
		if !regexp.MustCompile(`(?m)^` + name + `=$`).Match(text) {
			t.Errorf("env.example does not leave %s empty", name)
		}
	}
	for _, name := range []string{"prometheus.yml", "prometheus.cluster.yml"} {
		checkTargets(t, dir+name, one["services"].(map[string]any))
	}
}

func checkServices(t *testing.T, dir string, doc map[string]any) {
	t.Helper()
	volumes, _ := doc["volumes"].(map[string]any)
	for name, s := range doc["services"].(map[string]any) {
		if at(s, "image") == nil {
			t.Errorf("%s has no image", name)
		}
		for _, v := range list(at(s, "volumes")) {
			source, _, _ := strings.Cut(fmt.Sprint(v), ":")
			if strings.HasPrefix(source, ".") {
				if _, err := os.Stat(dir + source); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			} else if _, ok := volumes[source]; !ok {
				t.Errorf("%s: the volume %s is not declared", name, source)
			}
		}
		for _, p := range list(at(s, "ports")) {
			if !strings.HasPrefix(fmt.Sprint(p), "127.0.0.1:") {
				t.Errorf("%s: the port %v is open to everybody", name, p)
			}
		}
		if at(s, "image") != "tokenbus:local" {
			continue
		}
		var args, env []string
		for _, a := range list(at(s, "command")) {
			args = append(args, fmt.Sprint(a))
		}
		vars, _ := at(s, "environment").(map[string]any)
		for k, v := range vars {
			env = append(env, fmt.Sprint(k, "=", v))
		}
		checkCommand(t, name, args, env)
	}
}

// checkTargets: what is scraped is a service with that port of metrics.
func checkTargets(t *testing.T, path string, services map[string]any) {
	t.Helper()
	var doc map[string]any
	readYAML(t, path, &doc)
	n := 0
	for _, s := range list(doc["scrape_configs"]) {
		for _, c := range list(at(s, "static_configs")) {
			for _, target := range list(at(c, "targets")) {
				n++
				host, port, _ := strings.Cut(fmt.Sprint(target), ":")
				if command := fmt.Sprint(at(services[host], "command")); !strings.Contains(command, "--metrics-listen 0.0.0.0:"+port) {
					t.Errorf("%s: %v is no service that shows metrics there", path, target)
				}
			}
		}
	}
	if n < 5 {
		t.Errorf("%s: %d targets", path, n)
	}
}

// TestSystemd: the units are what systemd takes, and their processes can tell it how
// they are.
func TestSystemd(t *testing.T) {
	units, err := filepath.Glob("../../deploy/systemd/*.service")
	if err != nil || len(units) != 4 {
		t.Fatalf("%v, %v", units, err)
	}
	dir := t.TempDir()
	var copies []string
	for _, u := range units {
		b, err := os.ReadFile(u)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, want := range []string{"\nType=notify\n", "\nWatchdogSec=", "\nNotifyAccess=main\n", "AF_UNIX", "\nNoNewPrivileges=yes\n", "\nProtectSystem=strict\n", "\nDynamicUser=yes\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", u, strings.TrimSpace(want))
			}
		}
		// The binary is not installed here.
		path := filepath.Join(dir, filepath.Base(u))
		text = strings.ReplaceAll(text, "/usr/local/bin/tokenbus", "/bin/true")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, path)
	}
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here; the units were only read")
	}
	out, err := exec.Command(tool, append([]string{"verify", "--man=no"}, copies...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestExamplePolicies: each example is a policy, names what it is for, and all of
// them together are no contradiction.
func TestExamplePolicies(t *testing.T) {
	files, err := filepath.Glob("../../deploy/examples/policies/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	var docs []*policy.Document
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		d, err := policy.Parse(strings.TrimSuffix(filepath.Base(f), ".yaml"), text)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not say what it is for", f)
		}
		if d.Name == "least-loaded" {
			d, err = policy.Parse("_default", text) // as it says itself
			if err != nil {
				t.Error(err)
			}
		}
		docs = append(docs, d)
	}
	if _, err := policy.NewSet(1, docs); err != nil {
		t.Error(err)
	}
}
