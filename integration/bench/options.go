package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the targets, in the order of their turns.
const (
	direct   = "direct"
	proxy    = "proxy"
	tuned    = "tuned proxy"
	tokenbus = "tokenbus"
)

// Roles of Tokenbus, in the order in which they start.
var roles = []string{"bus", "gateway", "scheduler", "agent"}

// options are the flags of the benchmark.
type options struct {
	cases    []benchCase
	targets  []string
	rounds   int
	window   time.Duration // of measuring, for each target and round
	procs    map[string]int
	binary   string // empty: build it
	profile  string // directory; empty: no profiles
	prompt   int    // characters
	separate bool   // the gateway has no scheduler of its own
	usage    bool   // streams ask for a usage chunk
	quiet    int    // streams of the case quiet
}

// parseOptions reads the command line.
func parseOptions(args []string, out io.Writer) (options, error) {
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	o := options{procs: map[string]int{}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	chosen := f.String("case", "", "cases to run, by comma: "+strings.Join(names, ", ")+"; empty is all")
	targets := f.String("targets", "", "targets to run, by comma: direct, proxy, tuned, tokenbus; empty is all")
	seconds := f.Float64("seconds", 3, "time of measuring, for each case, target and round")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each case")
	f.StringVar(&o.binary, "binary", "", "tokenbus binary to measure; empty builds one")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles; runs Tokenbus only")
	f.IntVar(&o.prompt, "prompt-chars", 1000, "length of the prompt")
	f.BoolVar(&o.separate, "separate", false, "run the gateway with --no-local-scheduler, so that each request passes the scheduler process")
	f.BoolVar(&o.usage, "usage", true, "streams ask for a usage chunk; without it, the agent has to ask and to remove it")
	f.IntVar(&o.quiet, "quiet-streams", 1000, "streams of the case quiet")
	f.Func("procs", "ROLE=N: threads of a role (bus, gateway, scheduler, agent); may be repeated", func(s string) error {
		role, n, _ := strings.Cut(s, "=")
		count, err := strconv.Atoi(n)
		if err != nil || count < 1 || !slices.Contains(roles, role) {
			return fmt.Errorf("%q is not ROLE=N with a role of %s", s, strings.Join(roles, ", "))
		}
		o.procs[role] = count
		return nil
	})
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.window = time.Duration(*seconds * float64(time.Second))
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, errors.Join(o.choose(*chosen), o.aim(*targets), o.check())
}

// check reports values that are out of range.
func (o *options) check() error {
	if o.rounds < 1 || o.window < time.Second/2 || o.window > time.Minute || o.prompt < 1 || o.quiet < 1 {
		return errors.New("-rounds, -prompt-chars and -quiet-streams have to be positive, and -seconds from 0.5 to 60")
	}
	return nil
}

// choose sets the cases to run.
func (o *options) choose(list string) error {
	if list == "" {
		o.cases = cases
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(cases, func(c benchCase) bool { return c.name == name })
		if i < 0 {
			return fmt.Errorf("-case: there is no case %q", name)
		}
		o.cases = append(o.cases, cases[i])
	}
	return nil
}

// aim sets the targets to run.
func (o *options) aim(list string) error {
	o.targets = []string{direct, proxy, tuned, tokenbus}
	if o.profile != "" {
		// At the profiler's 100 samples a second a shorter one says little.
		o.targets, o.rounds, o.window = []string{tokenbus}, 1, max(o.window, 12*time.Second)
		return nil
	}
	if list == "" {
		return nil
	}
	names := map[string]string{"direct": direct, "proxy": proxy, "tuned": tuned, "tokenbus": tokenbus}
	o.targets = nil
	for s := range strings.SplitSeq(list, ",") {
		name, ok := names[s]
		if !ok {
			return fmt.Errorf("-targets: there is no target %q; use %s", s, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		o.targets = append(o.targets, name)
	}
	return nil
}
