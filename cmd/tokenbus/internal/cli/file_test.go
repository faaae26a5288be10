package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestFileProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string
	}{
		"all at once": {`
log-levle: info
gateway:
  listn: ":1"
  timeout: 10x
  listen: [a, b]
  body-limit: 1.5GiB
  listen: ":2"
gatewya: {}
agent:
  capacity: many
  body-limit: 1
  log-format: jsn
`, []string{
			`tb.yaml:2: log-levle: unknown key, did you mean "log-level"?`,
			`tb.yaml:4: gateway.listn: unknown key, did you mean "listen"?`,
			`tb.yaml:5: gateway.timeout: bad value "10x": expected duration but got "10x": time: unknown unit "x" in duration "10x"`,
			`tb.yaml:6: gateway.listen: want a single value, got a list`,
			`tb.yaml:7: gateway.body-limit: bad value "1.5GiB": "1.5GiB" is not a size; want a number of bytes, or one with KiB, MiB, GiB, KB, MB or GB`,
			`tb.yaml:8: gateway.listen: duplicate key, first set on line 6`,
			`tb.yaml:9: gatewya: unknown key, did you mean "gateway"?`,
			`tb.yaml:11: agent.capacity: bad value "many": expected a valid 64 bit int but got "many"`,
			`tb.yaml:12: agent.body-limit: unknown key; it is a setting of tokenbus gateway`,
			`tb.yaml:13: agent.log-format: bad value "jsn": want one of auto, text, json, did you mean "json"?`,
		}},
		"snake case":         {"gateway: {log_level: info}\n", []string{`tb.yaml:1: gateway.log_level: unknown key, did you mean "log-level"?`}},
		"section not a map":  {"gateway: 1\n", []string{"tb.yaml:1: gateway: want a mapping of settings, got a single value"}},
		"root not a map":     {"- a\n", []string{"tb.yaml:1: top level: want a mapping of settings, got a list"}},
		"duplicate section":  {"gateway: {}\nagent: {}\ngateway: {}\n", []string{"tb.yaml:3: gateway: duplicate key, first set on line 1"}},
		"flag only":          {"config: x\n", []string{"tb.yaml:1: config: unknown key; it is a flag only"}},
		"no value":           {"gateway:\n  listen:\n", []string{`tb.yaml:2: gateway.listen: no value; remove the key, or write "" for an empty one`}},
		"element":            {"gateway:\n  waits:\n    - 1s\n    - {a: b}\n", []string{"tb.yaml:4: gateway.waits: want a single value, got a mapping"}},
		"element's type":     {"gateway:\n  waits: [1s, x]\n", []string{`tb.yaml:2: gateway.waits: bad value "1s, x": element "x": expected duration but got "x": time: invalid duration "x"`}},
		"syntax":             {"gateway:\n  listen: [a\n", []string{"tb.yaml:3: not valid YAML: did not find expected ',' or ']'"}},
		"two documents":      {"gateway: {}\n---\nagent: {}\n", []string{"tb.yaml:2: a second document; want a single one"}},
		"tag":                {"gateway: {listen: !!binary aGk=}\n", []string{"tb.yaml:1: gateway.listen: the tag !!binary is not supported"}},
		"complex key":        {"? {a: b}\n: c\n", []string{"tb.yaml:1: top level: a key must be a plain name"}},
		"alias of a list":    {"nats: &n [a]\ngateway:\n  listen: *n\n", []string{"tb.yaml:3: gateway.listen: want a single value, got a list"}},
		"recursive alias":    {"nats: &n [*n]\n", []string{"tb.yaml:1: nats: want a single value, got a list"}},
		"types by command":   {"timeout: 5s\n", []string{`tb.yaml:1: timeout: bad value "5s": expected a valid 64 bit int but got "5s"`}},
		"secret not shown":   {"agent: {engine-key: [hunter2], engine-kye: hunter2}\n", []string{"tb.yaml:1: agent.engine-key: want a single value, got a list", `tb.yaml:1: agent.engine-kye: unknown key, did you mean "engine-key"?`}},
		"printed mask":       {"agent: {engine-key: '****'}\n", []string{"tb.yaml:1: agent.engine-key: bad value: this is the mask that is printed in place of a secret"}},
		"credentials masked": {"gateway: {timeout: 'nats://u:p@h'}\n", []string{`tb.yaml:1: gateway.timeout: bad value "nats://****@h": expected duration but got "nats://****@h": time: invalid duration "nats://****@h"`}},
		"file must exist":    {"gateway: {creds: none}\nagent: {creds: none}\n", []string{`tb.yaml:1: gateway.creds: bad value "none": stat DIR/none: no such file or directory`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run{args: "gateway", file: tc.file}.parse(t)
			dir, _ := os.Getwd()
			for i, want := range tc.want {
				tc.want[i] = strings.ReplaceAll(want, "DIR", dir)
			}
			checkProblems(t, err, tc.want...)
		})
	}
}

func TestFileTooLarge(t *testing.T) {
	_, _, err := run{args: "gateway", file: string(make([]byte, maxFileBytes+1))}.parse(t)
	checkProblems(t, err, "read the configuration file (--config): tb.yaml is larger than 4MiB")
}

// The settings that one file holds for each command can be shared by an anchor.
func TestAlias(t *testing.T) {
	g, _ := run{args: "agent", file: "gateway:\n  nats: &n [a, b]\nagent:\n  nats: *n\n  id: &id x\n"}.mustParse(t)
	checkEqual(t, "nats", len(g.Agent.NATS), 2)
}

// FuzzFile feeds the loader any bytes. Whatever it says, it returns; and if it
// has no complaint, neither has the parser about what it kept.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "gateway: {listen: ':1'}\n", "nats: [a, b]\n", "a: &x [*x]\n", "gateway:\n  labels: {a: b}\n  weight: 1\n",
		"? {a: b}\n: c\n", "<<: {}\n", "gateway: &g {}\nagent: *g\n", "\xff\xfe", "keys: {add: {expires: 1h}}\n---\n",
		"gateway: {trace: maybe, waits: [1s, [2]]}\n", "nats: !!set {a}\n", "gateway: {gateway: {}}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		g := &grammar{}
		m := &model{globals: &globals{}}
		found := settings{}
		k, err := kong.New(g, kong.Embed(m.globals), kong.Resolvers(found))
		if err != nil {
			t.Fatal(err)
		}
		m.adopt(k.Model)
		in := file{model: m, path: "f", settings: found, selected: map[*kong.Node]bool{k.Model.Node: true}, active: map[*kong.Flag]bool{}}
		gateway := child(k.Model.Node, "gateway")
		in.selected[gateway] = true
		for _, flag := range gateway.Flags {
			in.active[flag] = true
		}
		in.load(data)
		for _, problem := range in.problems {
			if problem.Error() == "" {
				t.Error("a problem without text")
			}
		}
		if len(in.problems) > 0 {
			return
		}
		if _, err := k.Parse([]string{"gateway"}); err != nil {
			t.Errorf("loaded, and then refused: %v", errors.Unwrap(err))
		}
	})
}
