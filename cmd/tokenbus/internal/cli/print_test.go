package cli

import (
	"bytes"
	"regexp"
	"testing"
)

func TestPrintConfig(t *testing.T) {
	for name, tc := range map[string]struct {
		run  run
		want string
	}{
		"every source": {run{
			args: "gateway --listen=:1 --print-config",
			env:  "TOKENBUS_BODY_LIMIT=1048576",
			file: "nats: ['nats://u:p@a', 'nats://tok@b,c']\ngateway:\n  labels: {b: '1', a: x}\n",
		}, `gateway:
  nats: ["nats://****@a", "nats://****@b,c"] # tb.yaml:1
  # creds: not set
  log-level: info # default
  log-format: auto # default
  listen: :1 # flag
  timeout: 10m0s # default
  body-limit: 1MiB # env TOKENBUS_BODY_LIMIT
  # waits: not set
  trace: false # default
  labels: {a: x, b: "1"} # tb.yaml:3
  # weight: not set
`},
		"secret": {run{args: "agent --print-config --id=7", env: "TOKENBUS_ENGINE_KEY=hunter2"}, `agent:
  nats: ["nats://127.0.0.1:4222"] # default
  # creds: not set
  log-level: info # default
  log-format: auto # default
  id: "7" # flag
  engine: http://127.0.0.1:8000 # default
  engine-key: "****" # env TOKENBUS_ENGINE_KEY
  # engine-key-file: not set
  capacity: 8 # default
  timeout: 60 # default
`},
		"nested": {run{args: "keys add --print-config", file: "keys: {add: {expires: 2h}}\n"}, `keys:
  add:
    log-level: info # default
    log-format: auto # default
    expires: 2h0m0s # tb.yaml:1
    # tenant: not set
`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			g, p := tc.run.mustParse(t, Stdout(&out))
			if err := p.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkEqual(t, "command ran", g.Gateway.ran, false)
			if out.String() != tc.want {
				t.Errorf("got:\n%s\nwant:\n%s", out.String(), tc.want)
			}
		})
	}
}

// What is printed can be loaded again, and then prints the same but for the
// sources.
func TestPrintConfigLoads(t *testing.T) {
	sources := regexp.MustCompile(` # (flag|default|tb\.yaml:\d+)\n`)
	first := printed(t, run{args: `gateway --listen=a"'b --waits=1s,2s --labels=a=b --weight=0 --nats= --timeout=1ms --body-limit=0`})
	second := printed(t, run{args: "gateway", file: first})
	checkEqual(t, "second output", sources.ReplaceAllString(second, "\n"), sources.ReplaceAllString(first, "\n"))
}

func printed(t *testing.T, r run) string {
	t.Helper()
	var out bytes.Buffer
	_, p := r.mustParse(t)
	if err := p.PrintConfig(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
