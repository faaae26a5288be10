package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	strategies string
	users      int
	turns      int
	systems    int
	chars      int
	message    int
	reply      int
	pause      time.Duration
	seed       uint64
	binary     string
	bound      bool
}

func main() {
	var o options
	flag.StringVar(&o.strategies, "strategies", "least-loaded,power-of-two,session-affinity,prefix-aware", "strategies to run, by comma")
	flag.IntVar(&o.users, "users", 160, "users at one time")
	flag.IntVar(&o.turns, "turns", 6, "turns of each conversation")
	flag.IntVar(&o.systems, "systems", 120, "system prompts")
	flag.IntVar(&o.chars, "chars", 6000, "characters of a system prompt")
	flag.IntVar(&o.message, "message", 400, "mean characters of a user's message")
	flag.IntVar(&o.reply, "reply", 60, "tokens of a reply")
	flag.DurationVar(&o.pause, "pause", 1500*time.Millisecond, "mean pause between two turns of a user")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the conversations")
	flag.StringVar(&o.binary, "binary", "", "tokenbus binary to measure; empty builds one")
	flag.BoolVar(&o.bound, "bound", true, "run the bound, one big engine, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "conversations:", err)
		os.Exit(1)
	}
}

// limit bounds the whole run of one strategy.
const limit = 3 * time.Minute

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "tokenbus-conversations")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		o.binary = filepath.Join(dir, "tokenbus")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "./cmd/tokenbus")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build tokenbus (run this in the repository): %w", err)
		}
	}
	fmt.Printf("`go run ./integration/conversations %s`\n\n", strings.Join(os.Args[1:], " "))
	fmt.Println("| strategy | prompt tokens from cache | TTFT p50 | TTFT p95 | busiest engine, requests over the mean | requests | failed |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|")
	var all []error
	one := func(name string, s setup) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		r, err := measure(ctx, o, filepath.Join(dir, strings.ReplaceAll(name, " ", "-")), s)
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", name, err))
			return
		}
		fmt.Printf("| %s | %.1f %% | %.0f ms | %.0f ms | %+.0f %% | %d | %d |\n", name, 100*r.reuse, r.p50, r.p95, 100*r.skew, r.requests, r.failed)
	}
	for name := range strings.SplitSeq(o.strategies, ",") {
		one(name, setup{strategy: name, engines: 4, slots: 64, room: 262_000})
	}
	if o.bound {
		one("bound: one big engine", setup{strategy: "least-loaded", engines: 1, slots: 256, room: 4 * 262_000})
	}
	return errors.Join(all...)
}
