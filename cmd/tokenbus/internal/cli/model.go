package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix begins the name of every environment variable that is a setting.
const envPrefix = "TOKENBUS_"

// model is the grammar as the configuration layer sees it: which variable
// belongs to which flag, and which flags may stand in a file.
type model struct {
	globals *globals
	app     *kong.Application
	config  *kong.Flag
	version *kong.Flag

	// env holds the variables of each flag; the first one that is set counts.
	env map[*kong.Flag][]string
	// flagsOnly are the flags that act on the invocation and have no key.
	flagsOnly map[*kong.Flag]bool
}

// adopt takes over a built grammar. The variables move from the tags into
// m.env, because the parser would read them from the process itself, before it
// knows the command, and stop at the first bad one.
func (m *model) adopt(app *kong.Application) {
	m.app = app
	m.env = map[*kong.Flag][]string{}
	m.flagsOnly = map[*kong.Flag]bool{app.HelpFlag: true}
	eachNode(app.Node, func(n *kong.Node) {
		for _, flag := range n.Flags {
			if flag == app.HelpFlag {
				continue
			}
			m.adoptFlag(flag)
		}
	})
}

func (m *model) adoptFlag(flag *kong.Flag) {
	noEnv := slices.Equal(flag.Tag.Envs, []string{"-"})
	switch flag.Target.Addr().Interface() {
	case &m.globals.Config:
		m.config, m.flagsOnly[flag] = flag, true
	case &m.globals.Version:
		m.version, m.flagsOnly[flag], noEnv = flag, true, true
	case &m.globals.PrintConfig:
		m.flagsOnly[flag], noEnv = true, true
	}
	switch {
	case noEnv:
	case len(flag.Tag.Envs) > 0:
		m.env[flag] = flag.Tag.Envs
	default:
		m.env[flag] = []string{envName(flag.Name)}
	}
	flag.Tag.Envs, flag.Envs = nil, nil
	if flag.PlaceHolder == "" && flag.HasDefault {
		flag.PlaceHolder = placeHolder(flag)
	}
	if inner, ok := flag.Mapper.(kong.MapperFunc); ok && flag.IsCumulative() {
		flag.Mapper = listMapper{inner}
	}
}

// envName is the variable of the flag with that name.
func envName(flag string) string {
	return envPrefix + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(flag))
}

// scope returns the flags that may stand in the section of n, by name: those
// that n accepts itself, and those of its subcommands. One name can stand for
// flags of several subcommands.
func (m *model) scope(n *kong.Node) map[string][]*kong.Flag {
	out := map[string][]*kong.Flag{}
	add := func(n *kong.Node) {
		for _, flag := range n.Flags {
			if !m.flagsOnly[flag] {
				out[flag.Name] = append(out[flag.Name], flag)
			}
		}
	}
	for up := n.Parent; up != nil; up = up.Parent {
		add(up)
	}
	eachNode(n, add)
	return out
}

// owners lists the commands that have a flag of this name, for an error text.
func (m *model) owners(name string) string {
	var out []string
	eachNode(m.app.Node, func(n *kong.Node) {
		for _, flag := range n.Flags {
			if flag.Name == name && n != m.app.Node && !flag.Hidden {
				out = append(out, n.FullPath())
			}
		}
	})
	return strings.Join(out, ", ")
}

// child returns the subcommand of n with that name or alias, or nil.
func child(n *kong.Node, name string) *kong.Node {
	for _, c := range n.Children {
		if c.Type == kong.CommandNode && (c.Name == name || slices.Contains(c.Aliases, name)) {
			return c
		}
	}
	return nil
}

// eachNode calls fn for n and every node below it, parents first.
func eachNode(n *kong.Node, fn func(*kong.Node)) {
	fn(n)
	for _, c := range n.Children {
		eachNode(c, fn)
	}
}

// flagsOnlyName reports whether a flag of this name exists that has no key.
func (m *model) flagsOnlyName(name string) bool {
	for flag := range m.flagsOnly {
		if flag != nil && flag.Name == name {
			return true
		}
	}
	return false
}
