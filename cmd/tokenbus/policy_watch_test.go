package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
	"github.com/tokenbus/tokenbus/schedule"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// TestWatchPolicyFiles: what changes in files is applied, and what does not load is
// logged once and changes nothing.
func TestWatchPolicyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("chat.yaml", chatPolicy)
	docs, err := loadPolicies([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var applied []string
		var logged strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &logged}, &slog.HandlerOptions{Level: slog.LevelWarn}))
			watchPolicyFiles(ctx, []string{dir}, docs, log, func(docs []*policy.Document) {
				var names []string
				for _, d := range docs {
					names = append(names, d.Name+":"+strings.Join(d.Models, ","))
				}
				mu.Lock()
				defer mu.Unlock()
				applied = append(applied, strings.Join(names, " "))
			})
		})
		// check waits for three looks, and compares what was applied and logged.
		check := func(what, want, warning string) {
			t.Helper()
			time.Sleep(3 * policyPoll)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(applied, " | "); got != want {
				t.Errorf("%s: applied %q, want %q", what, got, want)
			}
			got := logged.String()
			if n := strings.Count(got, "level=WARN"); warning == "" && n > 0 || warning != "" && (n != 1 || !strings.Contains(got, warning)) {
				t.Errorf("%s: logged %q, want %q once", what, got, warning)
			}
			applied = nil
			logged.Reset()
		}
		check("as it was", "", "")
		write("chat.yaml", strings.Replace(chatPolicy, "llama", "qwen3", 1))
		check("a change", "chat:qwen3", "")
		write("_default.yml", mainPolicy)
		check("a new file", "_default: chat:qwen3", "")
		write("chat.yaml", chatPolicy+"modles: []\n")
		check("a mistake", "", "chat.yaml: line 4: modles: unknown key")
		write("chat.yaml", chatPolicy)
		write("rival.yaml", chatPolicy+"\n")
		check("a contradiction", "", "is in two documents")
		if err := os.Remove(filepath.Join(dir, "rival.yaml")); err != nil {
			t.Fatal(err)
		}
		check("the contradiction is gone", "_default: chat:llama", "")
		if err := os.Remove(filepath.Join(dir, "chat.yaml")); err != nil {
			t.Fatal(err)
		}
		check("a file is gone", "_default:", "")
		if err := os.Remove(filepath.Join(dir, "_default.yml")); err != nil {
			t.Fatal(err)
		}
		check("all files are gone", "", "there is no .yaml or .yml file in it")
		stop()
		running.Wait()
	})
}

// TestStartPolicies: a scheduler with --policy goes by the files from its start, and
// does not start with files that do not load.
func TestStartPolicies(t *testing.T) {
	b := newPolicyBench(t)
	b.file("good/chat.yaml", chatPolicy)
	b.file("bad/chat.yaml", chatPolicy+"modles: []\n")
	link, err := bus.Dial(t.Context(), bus.Config{Name: "scheduler", URLs: []string{b.url}})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	for paths, want := range map[string]string{
		"good":     "",
		"bad":      "--policy: bad/chat.yaml: line 4: modles: unknown key, did you mean models?",
		"good bad": "--policy: bad/chat.yaml: good/chat.yaml has the same name, chat",
		"missing":  "--policy: stat missing: no such file or directory",
		"":         "",
	} {
		f := schedulerFlagsOf(t, strings.Fields(paths))
		cfg := f.config(slog.New(slog.DiscardHandler))
		if cfg.PolicyFiles != (paths != "") {
			t.Errorf("%q: PolicyFiles is %v", paths, cfg.PolicyFiles)
		}
		s, err := schedule.New(cfg, link)
		if err != nil {
			t.Fatal(err)
		}
		p := newParts()
		err = f.startPolicies(p, s, cfg.Log)
		if got := errorText(p.stop(err)); got != want {
			t.Errorf("%q: got %q, want %q", paths, got, want)
		}
		if v := s.Counters().PolicyVersion; v != 0 != (paths == "good") {
			t.Errorf("%q: version %d is in force", paths, v)
		}
	}
}

// schedulerFlagsOf are the flags of a scheduler with these paths of policies.
func schedulerFlagsOf(t *testing.T, paths []string) schedulerFlags {
	t.Helper()
	args := []string{"scheduler"}
	for _, p := range paths {
		args = append(args, "--policy", p)
	}
	var g grammar
	if _, err := cli.Parse(&g, args, cli.Environ(nil), cli.Stdout(io.Discard), cli.Kong(kong.Name("tokenbus"))); err != nil {
		t.Fatal(err)
	}
	return g.Scheduler.schedulerFlags
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
