package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

// policyBench is a bus with policies, and a directory of files.
type policyBench struct {
	t   *testing.T
	url string
}

func newPolicyBench(t *testing.T) *policyBench {
	t.Helper()
	srv, err := bus.NewServer(bus.ServerConfig{Name: "test", Listen: "127.0.0.1:0", DataDir: t.TempDir(), Domain: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	t.Chdir(t.TempDir())
	return &policyBench{t, srv.URL()}
}

func (b *policyBench) file(path, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// try runs tokenbus policy.
func (b *policyBench) try(args string) (string, error) {
	b.t.Helper()
	var out strings.Builder
	g := grammar{Policy: policyCmd{out: &out}}
	p, err := cli.Parse(&g, append([]string{"policy", "--nats", b.url, "--log-level=error"}, strings.Fields(args)...),
		cli.Environ(nil), cli.Stdout(io.Discard), cli.Kong(kong.Name("tokenbus")))
	if err != nil {
		return "", err
	}
	err = p.Run(b.t.Context())
	return out.String(), err
}

// check runs tokenbus policy, and compares what it prints. Times become TIME.
func (b *policyBench) check(args, want string) {
	b.t.Helper()
	got, err := b.try(args)
	if err != nil {
		b.t.Errorf("policy %s: %v", args, err)
	}
	if got = someTime.ReplaceAllString(got, "TIME"); got != want {
		b.t.Errorf("policy %s:\n%s\nwant:\n%s", args, got, want)
	}
}

// fail runs what must fail, and compares the error.
func (b *policyBench) fail(args, want string) {
	b.t.Helper()
	if _, err := b.try(args); err == nil || err.Error() != want {
		b.t.Errorf("policy %s: got %v, want %s", args, err, want)
	}
}

var someTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)

const (
	chatPolicy = "models: [llama]\nrouting_policy:\n  strategy: least-loaded\n"
	mainPolicy = "routing_policy: {strategy: round-robin}\n"
)

// TestPolicyCommand: the life of a few policies.
func TestPolicyCommand(t *testing.T) {
	b := newPolicyBench(t)
	b.check("list", "NAME  REVISION  AT  MODELS\n")
	b.check("list --json", "[]\n")
	b.file("p/chat.yaml", chatPolicy)
	b.file("p/_default.yml", mainPolicy)
	b.file("p/readme.txt", "not a policy")
	b.check("check p", "p/_default.yml: ok\np/chat.yaml: ok\n")
	b.check("apply p", "_default revision 1\nchat revision 2\n")
	b.check("apply p/chat.yaml", "chat unchanged, revision 2\n")
	b.check("", "NAME      REVISION  AT                    MODELS\n_default  1         TIME  (all others)\nchat      2         TIME  llama\n")
	b.check("show chat", chatPolicy)
	b.check("diff p/chat.yaml", "")

	faster := strings.Replace(chatPolicy, "least-loaded", "lowest-latency", 1)
	b.file("p/chat.yaml", faster)
	out, err := b.try("diff p/chat.yaml")
	if want := "@@ -1 +1 @@\n models: [llama]\n routing_policy:\n-  strategy: least-loaded\n+  strategy: lowest-latency\n"; out != want ||
		err == nil || err.Error() != "p/chat.yaml differs from revision 2 of chat" {
		t.Errorf("diff: %v\n%s", err, out)
	}
	b.check("apply p/chat.yaml", "chat revision 3\n")
	b.check("history chat", "NAME  REVISION  AT                    MODELS\nchat  2         TIME  llama\nchat  3         TIME  llama\n")
	b.check("rollback chat", "chat revision 4\n")
	b.check("show chat", chatPolicy)
	b.check("rollback chat --to 3", "chat revision 5\n")
	b.check("show chat", faster)
	b.check("delete chat", "chat deleted\n")
	b.fail("show chat", "read policy chat: there is no such policy")
	b.check("rollback chat", "chat revision 7\n")
	b.check("show chat", faster)
	b.fail("rollback chat --to 99", "read policy chat: there is no such policy")
	b.fail("rollback _default", "_default has no older text than that of revision 1")

	b.file("new.yaml", mainPolicy)
	b.fail("diff new.yaml", "new.yaml is new: no policy new is stored")

	text, err := b.try("show chat --json")
	var entry policyEntry
	if err != nil || json.Unmarshal([]byte(text), &entry) != nil || entry.Text != faster || entry.Revision != 7 || entry.Models[0] != "llama" {
		t.Errorf("show --json: %v, %s", err, text)
	}
}

// TestPolicyRefused: what is wrong is named, all of it, and nothing is put.
func TestPolicyRefused(t *testing.T) {
	b := newPolicyBench(t)
	b.file("chat.yaml", chatPolicy)
	b.check("apply chat.yaml", "chat revision 1\n")
	b.file("good.yaml", "models: [good]\n")
	b.file("bad.yaml", "modles: [a]\nrouting_policy: {strategy: fast}\n")
	b.file("also/bad.yaml", "models: []\n")
	b.file("rival.yaml", "models: [llama]\n")
	b.file("all.yaml", mainPolicy)
	b.file("not a name.yaml", mainPolicy)
	b.file("d/x.txt", "")

	strategies := "least-loaded, least-tokens, lowest-kv-cache, lowest-latency, lowest-queue, power-of-two, prefix-aware, round-robin, session-affinity"
	bad := "bad.yaml: line 1: modles: unknown key, did you mean models?\n" +
		`bad.yaml: line 2: routing_policy.strategy: unknown strategy "fast"; it is one of ` + strategies
	b.fail("check good.yaml bad.yaml", bad)
	b.fail("apply good.yaml bad.yaml", bad+"\nnothing was changed")
	b.fail("apply good.yaml rival.yaml", "the model \"llama\" is in two documents, chat and rival\nnothing was changed")
	b.fail("apply good.yaml all.yaml", "all names no models; add the key, or call it _default to make it the document of all others\nnothing was changed")
	b.check("check all.yaml", "all.yaml: ok\n")
	b.check("check rival.yaml", "rival.yaml: ok\n")
	b.fail("check rival.yaml chat.yaml", `the model "llama" is in two documents, chat and rival`)
	b.fail("check d", "d: there is no .yaml or .yml file in it")
	b.fail("check bad.yaml also/bad.yaml", "also/bad.yaml: bad.yaml has the same name, bad\n"+bad)
	b.fail("check missing.yaml", "stat missing.yaml: no such file or directory")
	if _, err := b.try("check ."); err == nil || !strings.Contains(err.Error(), `not a name.yaml: "not a name" can't be the name of a policy`) {
		t.Errorf("a bad name: %v", err)
	}
	b.check("list", "NAME  REVISION  AT                    MODELS\nchat  1         TIME  llama\n")

	// What somebody put past the checks is named, and does not stop its own repair.
	link, err := bus.Dial(t.Context(), bus.Config{Name: "other", URLs: []string{b.url}})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if _, err := link.PutPolicy(t.Context(), "chat", "hello: 1\n"); err != nil {
		t.Fatal(err)
	}
	b.check("list", "NAME  REVISION  AT                    MODELS\nchat  2         TIME  (does not load)\n")
	if _, err := b.try("apply good.yaml"); err == nil || !strings.HasPrefix(err.Error(), "the stored policy chat: line 1: hello: unknown key") {
		t.Errorf("beside one that does not load: %v", err)
	}
	b.check("apply chat.yaml good.yaml", "chat revision 3\ngood revision 4\n")
	b.fail("rollback chat --to 2", "revision 2 of chat: line 1: hello: unknown key; it is one of models, mode, max_input_tokens, images_max, admit_budget_tokens, max_inflight, max_occupancy_share, shed_if, routing_policy, fallback_chain, fallback_provider, split, split_tenants, shadow, adapter\nnothing was changed")
}

// TestPolicyDelete: what is left after a deletion is checked, but what is not valid can
// always be deleted.
func TestPolicyDelete(t *testing.T) {
	b := newPolicyBench(t)
	link, err := bus.Dial(t.Context(), bus.Config{Name: "other", URLs: []string{b.url}})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	for _, name := range []string{"bad", "worse"} {
		if _, err := link.PutPolicy(t.Context(), name, "mode: fast\n"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := b.try("delete worse")
	want := `the stored policy bad: line 1: mode: "fast" is not one of reserved, serverless` + "\nthe policies that are left are not valid, so schedulers go by those before"
	if out != "worse deleted\n" || err == nil || err.Error() != want {
		t.Errorf("delete worse: %s%v, want %s", out, err, want)
	}
	b.check("delete bad", "bad deleted\n")
	b.check("list", "NAME  REVISION  AT  MODELS\n")
}

// TestPolicyUsage: wrong invocations are usage errors, and reach no bus.
func TestPolicyUsage(t *testing.T) {
	b := &policyBench{t, "nats://127.0.0.1:1"}
	for args, want := range map[string]string{
		"show":                 "policy show takes the name of a policy, not 0 arguments",
		"list chat":            "policy list takes nothing, not 1 arguments",
		"diff a b":             "policy diff takes one file, not 2 arguments",
		"apply":                "policy apply takes at least one file or directory, not 0 arguments",
		"delete chat --json":   "--json: policy delete prints no JSON",
		"show chat --to 3":     "--to: it is a flag of policy rollback",
		"aply chat":            `must be one of "list","show","history","check","apply","diff","rollback","delete" but got "aply"`,
		"delete --to 1 --json": "policy delete takes the name of a policy, not 0 arguments",
	} {
		_, err := b.try(args)
		var usage *cli.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("policy %s: got %v, want %s", args, err, want)
		}
	}
}

// TestPolicyPage: the documents in docs/policies.md load, and those that it shows
// together fit together.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	names := []string{"whole", "hedge", "split", "adapter", "shadow", "_default", "chat"}
	if len(blocks) != len(names) {
		t.Fatalf("the page has %d documents", len(blocks))
	}
	b := &policyBench{t, ""}
	t.Chdir(t.TempDir())
	for i, name := range names {
		b.file("p/"+name+".yaml", blocks[i][1])
		b.check("check p/"+name+".yaml", "p/"+name+".yaml: ok\n")
	}
	b.check("check p/_default.yaml p/chat.yaml p/split.yaml p/whole.yaml", "p/_default.yaml: ok\np/chat.yaml: ok\np/split.yaml: ok\np/whole.yaml: ok\n")
}
