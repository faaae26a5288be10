package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPrecedence(t *testing.T) {
	const env = "TOKENBUS_LISTEN=:2"
	const file = "listen: ':4'\ngateway:\n  listen: ':3'\n"
	for name, tc := range map[string]struct {
		run  run
		want string
	}{
		"default":                    {run{args: "gateway"}, ":8080"},
		"top level":                  {run{args: "gateway", file: "listen: ':4'\n"}, ":4"},
		"section over top level":     {run{args: "gateway", file: file}, ":3"},
		"section stands first":       {run{args: "gateway", file: "gateway: {listen: ':3'}\nlisten: ':4'\n"}, ":3"},
		"environment over file":      {run{args: "gateway", env: env, file: file}, ":2"},
		"empty environment is unset": {run{args: "gateway", env: "TOKENBUS_LISTEN=", file: file}, ":3"},
		"flag over all":              {run{args: "gateway --listen=:1", env: env, file: file}, ":1"},
		"other command's section":    {run{args: "gateway", file: "keys: {add: {tenant: x}}\nagent: {engine: x}\n"}, ":8080"},
		"empty file":                 {run{args: "gateway", file: "# nothing\n"}, ":8080"},
		"empty section":              {run{args: "gateway", file: "gateway:\n"}, ":8080"},
	} {
		t.Run(name, func(t *testing.T) {
			g, _ := tc.run.mustParse(t)
			checkEqual(t, "listen", g.Gateway.Listen, tc.want)
		})
	}
}

func TestValues(t *testing.T) {
	const file = `
nats: [nats://a:4222, "nats://b:4222,c"]
gateway: &g
  timeout: 90s
  body-limit: 1GiB
  waits: [1s, 2m]
  trace: yes
  weight: 0.5
  labels: {zone: a=b, n: 08}
`
	g, _ := run{args: "gateway", file: file}.mustParse(t)
	got := fmt.Sprintf("%q %v %v %v %v %v %v", g.Gateway.NATS, g.Gateway.Timeout, g.Gateway.BodyLimit,
		g.Gateway.Waits, g.Gateway.Trace, *g.Gateway.Weight, g.Gateway.Labels)
	checkEqual(t, "settings", got,
		`["nats://a:4222" "nats://b:4222,c"] 1m30s 1GiB [1s 2m0s] true 0.5 map[n:08 zone:a=b]`)
}

func TestScalarForList(t *testing.T) {
	g, _ := run{args: "gateway", file: "nats: a,b\ngateway: {waits: 3s}\n"}.mustParse(t)
	checkEqual(t, "nats", strings.Join(g.Gateway.NATS, " "), "a b")
	checkEqual(t, "waits", g.Gateway.Waits[0], 3*time.Second)
}

func TestListReplacesDefault(t *testing.T) {
	g, _ := run{args: "gateway", file: "nats: []\n"}.mustParse(t)
	checkEqual(t, "nats", len(g.Gateway.NATS), 0)
}

func TestNestedSection(t *testing.T) {
	g, _ := run{args: "keys add", file: "keys:\n  tenant: a\n  add:\n    expires: 1h\n"}.mustParse(t)
	checkEqual(t, "expires", g.Keys.Add.Expires, time.Hour)
	checkEqual(t, "tenant", g.Keys.Add.Tenant, "a")
}

func TestRequiredFromFileOrEnvironment(t *testing.T) {
	g, _ := run{args: "agent", file: "agent: {id: a1}\n"}.mustParse(t)
	checkEqual(t, "id", g.Agent.ID, "a1")
	g, _ = run{args: "agent", env: "TOKENBUS_ID=a2"}.mustParse(t)
	checkEqual(t, "id", g.Agent.ID, "a2")
	_, _, err := run{args: "agent"}.parse(t)
	checkProblems(t, err, "missing flags: --id=STRING")
}

func TestConfigFromEnvironment(t *testing.T) {
	path := writeFile(t, t.TempDir()+"/x.yaml", "gateway: {listen: ':3'}\n")
	g, _ := run{args: "gateway", env: "TOKENBUS_CONFIG=" + path}.mustParse(t)
	checkEqual(t, "listen", g.Gateway.Listen, ":3")
	_, _, err := run{args: "gateway", env: "TOKENBUS_CONFIG=none.yaml"}.parse(t)
	checkProblems(t, err, "read the configuration file (TOKENBUS_CONFIG): open none.yaml: no such file or directory")
}

// One variable may be an int for one command and a duration for another; only
// the command that runs reads it.
func TestEnvironmentOfOtherCommand(t *testing.T) {
	g, _ := run{args: "gateway", env: "TOKENBUS_TIMEOUT=5s"}.mustParse(t)
	checkEqual(t, "timeout", g.Gateway.Timeout, 5*time.Second)
	_, _, err := run{args: "agent --id=a", env: "TOKENBUS_TIMEOUT=5s"}.parse(t)
	checkProblems(t, err, `TOKENBUS_TIMEOUT: bad value "5s": expected a valid 64 bit int but got "5s"`)
}

func TestEnvironmentProblems(t *testing.T) {
	_, _, err := run{args: "gateway", env: strings.Join([]string{
		"TOKENBUS_LISTN=:1", "TOKENBUS_ZZZZZZZZ=1", "TOKENBUS_LOG_LEVEL=inf", "TOKENBUS_TEST_BIN=x", "PATH=x",
		"TOKENBUS_SERVICE_HOST=10.0.0.1", "TOKENBUS_GATEWAY_PORT=tcp://10.0.0.1:80",
		"TOKENBUS_PORT_4222_TCP_ADDR=10.0.0.1", "TOKENBUS_ANY_PORT=80",
	}, "\n")}.parse(t, AllowEnv("TOKENBUS_TEST_BIN"))
	checkProblems(t, err,
		"TOKENBUS_ANY_PORT: unknown environment variable",
		`TOKENBUS_LISTN: unknown environment variable, did you mean "TOKENBUS_LISTEN"?`,
		`TOKENBUS_LOG_LEVEL: bad value "inf": want one of debug, info, warn, error, did you mean "info"?`,
		"TOKENBUS_ZZZZZZZZ: unknown environment variable")
}

func TestFlagProblems(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"near":          {"gateway --listn=:1", `unknown flag --listn, did you mean "--listen"?`},
		"farther":       {"gateway --body-lmtts=1", `unknown flag --body-lmtts, did you mean "--body-limit"?`},
		"other command": {"gateway --capacity=1", "unknown flag --capacity; it is a flag of tokenbus agent"},
		"nothing near":  {"gateway --zzzzzzz", "unknown flag --zzzzzzz"},
		"command":       {"gatewya", `unexpected argument gatewya, did you mean "gateway"?`},
		"credentials":   {"gateway --timeout=nats://u:p@h", `--timeout: expected duration but got "nats://****@h": time: invalid duration "nats://****@h"`},
		"value":         {"gateway --body-limit=1XB", `--body-limit: "1XB" is not a size; want a number of bytes, or one with KiB, MiB, GiB, KB, MB or GB`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := run{args: tc.args}.parse(t)
			checkProblems(t, err, tc.want)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		args string
		want []string // in this order
	}{
		"app": {"--help", []string{"Usage: tokenbus <command>", "Flags of every command:", "--config=FILE", "$TOKENBUS_CONFIG", "Commands:"}},
		"command": {"gateway --help", []string{
			"Usage: tokenbus gateway [flags]\n\nExamples:\n  tokenbus gateway --listen :8080\n    --trace\n\n  TOKENBUS_TRACE=1",
			"\n\nRun a gateway.", "--log-level=debug|info|warn|error", "--listen=LISTEN", "Address to listen on (default :8080,", "$TOKENBUS_LISTEN).",
			"--timeout=DURATION", "--body-limit=SIZE"}},
		"choices":                          {"agent --help", []string{"--log-level=debug|info|warn|error"}},
		"required flags are not asked for": {"agent --help", []string{"--engine-key"}},
		"version":                          {"--version", []string{"tokenbus ", "commit "}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			_, p := run{args: tc.args, file: "not: valid\n"}.mustParse(t, Stdout(&out))
			if err := p.Run(t.Context()); !p.Done || err != nil {
				t.Errorf("got done %v, run %v", p.Done, err)
			}
			rest := out.String()
			for _, want := range tc.want {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Fatalf("no %q, in its place, in:\n%s", want, out.String())
				}
				rest = after
			}
		})
	}
}

func TestRun(t *testing.T) {
	g, p := run{args: "gateway"}.mustParse(t)
	if err := p.Run(t.Context()); err != nil || !g.Gateway.ran {
		t.Errorf("got ran %v, error %v", g.Gateway.ran, err)
	}
}
