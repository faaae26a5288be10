package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	// The kernel ends the children with the thread that started them: see tie.
	runtime.LockOSThread()
	if len(os.Args) > 1 && os.Args[1] == "proxy" {
		runtime.UnlockOSThread()
		if err := runProxy(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "proxy:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the benchmark.
type bench struct {
	options
	profiling *profiling // nil: none
}

// run measures all chosen cases and prints the tables to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tokenbus-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{options: o}
	if b.binary == "" {
		b.note("building tokenbus")
		if b.binary, err = build(ctx, dir); err != nil {
			return err
		}
	}
	var results []result
	for _, c := range b.cases {
		r, err := b.runCase(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		results = append(results, r)
	}
	command := strings.Join(append([]string{"go run ./integration/bench"}, args...), " ")
	return report(out, command, b.targets, results)
}

// result holds the values of each turn of a case, by target and round.
type result struct {
	benchCase
	turns map[string][]values
}

// runCase starts what a case needs, lets the targets take turns, and stops all of it.
func (b *bench) runCase(ctx context.Context, c benchCase) (r result, err error) {
	b.note("%s: %s", c.name, c.title)
	f, err := startFleet(ctx, b.options, c.engine)
	if f != nil {
		defer func() { err = errors.Join(err, f.stop()) }()
	}
	if err != nil {
		return r, err
	}
	if b.profile != "" {
		c.slices = 1
		b.profiling = &profiling{dir: b.profile, name: c.name, queries: []string{fmt.Sprintf("profile?seconds=%d", int(b.window.Seconds())-2)}}
		if c.once {
			b.profiling.queries = []string{"heap?gc=1", "goroutine"}
		}
	}
	window := b.window
	defer func() { b.window = window }()
	b.window /= time.Duration(c.slices)
	r = result{benchCase: c, turns: map[string][]values{}}
	rounds := b.rounds * c.slices
	if c.once {
		rounds = 1
	}
	for round := range rounds {
		// Every target is each one's neighbour, and none is always first.
		order := slices.Clone(f.targets)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, t := range order {
			began := time.Now()
			v, err := c.turn(ctx, b, f, t)
			if err = errors.Join(err, f.alive()); err != nil {
				return r, fmt.Errorf("%s: %w", t.name, err)
			}
			r.turns[t.name] = append(r.turns[t.name], v)
			b.note("  round %d of %d, %s: %.1f s", round+1, rounds, t.name, time.Since(began).Seconds())
		}
	}
	return r, b.profiling.wait()
}

// note tells how far the run is.
func (b *bench) note(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// noteFailures tells how many streams failed, and how the first of them did.
func (b *bench) noteFailures(t *target, errs []error) {
	if len(errs) > 0 {
		b.note("  %s: %d streams failed, the first with: %v", t.name, len(errs), errs[0])
	}
}
