package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
)

// Option changes how [Parse] works.
type Option func(*options)

type options struct {
	environ []string
	stdout  io.Writer
	allowed map[string]bool
	kong    []kong.Option
}

// Environ replaces the process environment; the form is that of [os.Environ].
func Environ(environ []string) Option {
	return func(o *options) { o.environ = environ }
}

// Stdout replaces the standard output as the place where help, the version and
// the effective configuration are printed.
func Stdout(w io.Writer) Option {
	return func(o *options) { o.stdout = w }
}

// AllowEnv names TOKENBUS_ variables that are no settings and yet no mistakes.
func AllowEnv(names ...string) Option {
	return func(o *options) {
		for _, name := range names {
			o.allowed[name] = true
		}
	}
}

// Kong passes options to the parser underneath: a description, variables for
// the tags, bindings.
func Kong(opts ...kong.Option) Option {
	return func(o *options) { o.kong = append(o.kong, opts...) }
}

// globals are the flags that Parse adds to every command.
type globals struct {
	Config      string `help:"Read settings from this YAML file." placeholder:"FILE"`
	PrintConfig bool   `help:"Print the effective configuration and where each setting comes from, then stop."`
	Version     bool   `help:"Print the version, then stop."`
}

// Parsed is a command line that was understood, with every setting in place.
type Parsed struct {
	// Context is the parser's own view.
	*kong.Context

	// Done says that the command line asked for help or the version, which has
	// been printed, and that there is nothing to run.
	Done bool

	stdout      io.Writer
	printConfig bool
	model       *model
	settings    settings
}

// Parse reads args (without the program name), the environment and the
// configuration file into grammar, a pointer to a struct in the form that kong
// defines. The process is never ended from here. The error is a [*UsageError]
// when the user has something to correct; any other error is a mistake in the
// grammar itself.
func Parse(grammar any, args []string, opts ...Option) (*Parsed, error) {
	o := options{environ: os.Environ(), stdout: os.Stdout, allowed: map[string]bool{}}
	for _, opt := range opts {
		opt(&o)
	}
	var g globals
	m := &model{globals: &g}
	found := settings{}
	k, err := kong.New(grammar, append([]kong.Option{
		kong.Name("tokenbus"),
		kong.Writers(o.stdout, io.Discard),
		kong.Embed(&g, `group:"Flags of every command:"`),
		kong.Help(printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ValueFormatter(m.describe),
		kong.Resolvers(found),
	}, o.kong...)...)
	if err != nil {
		return nil, fmt.Errorf("build the command line grammar: %w", err)
	}
	m.adopt(k.Model)

	// A first pass finds the command and the file; only then can the settings
	// be collected that the second pass asks for.
	trace, err := kong.Trace(k, args)
	if err != nil {
		return nil, &UsageError{Problems: []error{err}}
	}
	if trace.Error != nil {
		return nil, &UsageError{Problems: []error{m.improve(trace, trace.Error)}}
	}
	for _, el := range trace.Path {
		switch {
		case el.Flag == nil:
		case el.Flag == k.Model.HelpFlag:
			return &Parsed{Context: trace, Done: true}, trace.PrintUsage(false)
		case el.Flag == m.version:
			_, err := fmt.Fprintln(o.stdout, Version())
			return &Parsed{Context: trace, Done: true}, err
		}
	}
	if problems := found.collect(m, trace, environment(o.environ), o.allowed); len(problems) > 0 {
		return nil, &UsageError{Problems: problems}
	}
	ctx, err := k.Parse(args)
	if err != nil {
		return nil, &UsageError{Problems: []error{m.improve(trace, err)}}
	}
	return &Parsed{Context: ctx, stdout: o.stdout, printConfig: g.PrintConfig, model: m, settings: found}, nil
}

// Run runs the selected command. Its Run method may ask for a [context.Context],
// which is ctx, and for arguments of the types of binds. With --print-config the
// effective configuration is printed instead, and after help or the version
// nothing is done.
func (p *Parsed) Run(ctx context.Context, binds ...any) error {
	switch {
	case p.Done:
		return nil
	case p.printConfig:
		return p.PrintConfig(p.stdout)
	}
	p.BindTo(ctx, (*context.Context)(nil))
	return p.Context.Run(binds...)
}
