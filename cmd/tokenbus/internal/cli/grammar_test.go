package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The sample grammar: shared structs in several commands, a nested command, and
// a setting of every kind.

type natsFlags struct {
	NATS  []string `name:"nats" help:"NATS servers." default:"nats://127.0.0.1:4222"`
	Creds string   `help:"NATS credentials file." type:"existingfile"`
}

type logFlags struct {
	LogLevel  string `help:"Least level to log." enum:"debug,info,warn,error" default:"info"`
	LogFormat string `help:"Log format." enum:"auto,text,json" default:"auto"`
}

type gatewayCmd struct {
	natsFlags
	logFlags
	Listen    string        `help:"Address to listen on." default:":8080"`
	Timeout   time.Duration `help:"Longest request." default:"10m"`
	BodyLimit Bytes         `help:"Largest request body." default:"64MiB"`
	Waits     []time.Duration
	Trace     bool              `help:"Trace requests."`
	Labels    map[string]string `help:"Labels."`
	Weight    *float64          `help:"Weight."`
	ran       bool
}

func (*gatewayCmd) Examples() string {
	return `
		tokenbus gateway --listen :8080
		  --trace

		TOKENBUS_TRACE=1 tokenbus gateway
	`
}

func (g *gatewayCmd) Run(ctx context.Context) error {
	g.ran = true
	return ctx.Err()
}

type agentCmd struct {
	natsFlags
	logFlags
	ID            string `help:"Agent id." required:""`
	Engine        string `help:"Engine URL." default:"http://127.0.0.1:8000"`
	EngineKey     Secret `help:"Key of the engine."`
	EngineKeyFile string `help:"File with the key of the engine."`
	Capacity      int    `help:"Slots." default:"8"`
	Timeout       int    `help:"Seconds." default:"60"`
}

func (*agentCmd) Run() error { return nil }

type keysAddCmd struct {
	logFlags
	Expires time.Duration `help:"Lifetime."`
	Tenant  string        `help:"Tenant."`
}

func (*keysAddCmd) Run() error { return nil }

type grammar struct {
	Gateway gatewayCmd `cmd:"" help:"Run a gateway."`
	Agent   agentCmd   `cmd:"" help:"Run an agent."`
	Keys    struct {
		Add keysAddCmd `cmd:"" help:"Add a key."`
	} `cmd:"" help:"Manage keys."`
}

// run is one invocation in a test.
type run struct {
	args string // split at spaces
	env  string // split at newlines
	file string // content; empty is no --config
}

// parse returns the grammar and the result. In errors the file is tb.yaml.
func (r run) parse(t *testing.T, opts ...Option) (*grammar, *Parsed, error) {
	t.Helper()
	args := strings.Fields(r.args)
	if r.file != "" {
		t.Chdir(t.TempDir())
		writeFile(t, "tb.yaml", r.file)
		args = append(args, "--config=tb.yaml")
	}
	g := &grammar{}
	opts = append([]Option{Environ(strings.Split(r.env, "\n")), Stdout(io.Discard)}, opts...)
	p, err := Parse(g, args, opts...)
	return g, p, err
}

func (r run) mustParse(t *testing.T, opts ...Option) (*grammar, *Parsed) {
	t.Helper()
	g, p, err := r.parse(t, opts...)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return g, p
}

func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Clean(name)
}

// checkProblems compares the text of each problem in err.
func checkProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	var usage *UsageError
	if !errors.As(err, &usage) {
		t.Fatalf("got error %v, want a usage error", err)
	}
	var got []string
	for _, problem := range usage.Problems {
		got = append(got, problem.Error())
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("problems:\n%s\nwant:\n%s", g, w)
	}
}

func checkEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
