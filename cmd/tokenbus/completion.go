package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" help:"bash, zsh or fish." enum:"bash,zsh,fish"`
}

// Examples is printed first by --help.
func (*completionCmd) Examples() string {
	return `source <(tokenbus completion bash)
source <(tokenbus completion zsh)
tokenbus completion fish > ~/.config/fish/completions/tokenbus.fish`
}

// Run prints the script that makes a shell complete commands and flags.
func (c *completionCmd) Run() error {
	p, err := kong.New(&grammar{}, kong.Name("tokenbus"))
	if err != nil {
		return err
	}
	return writeCompletion(os.Stdout, c.Shell, words(p.Model.Node, nil))
}

// completions are what can follow a path of commands.
type completions struct {
	path  string // of commands, "" for the first
	names []string
}

// words lists what can follow each command: the commands below it and its flags.
func words(n *kong.Node, path []string) []completions {
	w := completions{path: strings.Join(path, " ")}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			w.names = append(w.names, "--"+f.Name)
		}
	}
	var below []completions
	for _, c := range n.Children {
		if c.Hidden || c.Type != kong.CommandNode {
			continue
		}
		w.names = append(w.names, c.Name)
		below = append(below, words(c, append(slices.Clone(path), c.Name))...)
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	return append([]completions{w}, below...)
}

func writeCompletion(w io.Writer, shell string, all []completions) error {
	if shell == "fish" {
		for _, word := range all {
			when := "__fish_use_subcommand"
			if word.path != "" {
				when = "__fish_seen_subcommand_from " + word.path[strings.LastIndex(word.path, " ")+1:]
			}
			for _, name := range word.names {
				kind := "-a " + name
				if flag, ok := strings.CutPrefix(name, "--"); ok {
					kind = "-l " + flag
				}
				if _, err := fmt.Fprintf(w, "complete -c tokenbus -n '%s' %s\n", when, kind); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var b strings.Builder
	if shell == "zsh" {
		b.WriteString("autoload -U +X compinit bashcompinit && compinit && bashcompinit\n")
	}
	b.WriteString("_tokenbus() {\n  local path= words= w\n  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$path $w\" in\n")
	for _, word := range all {
		if word.path != "" {
			parent, name := "", word.path
			if i := strings.LastIndex(name, " "); i >= 0 {
				parent, name = name[:i], name[i+1:]
			}
			fmt.Fprintf(&b, "    \"%s %s\") path=\"%s\" ;;\n", parent, name, word.path)
		}
	}
	b.WriteString("    esac\n  done\n  case \"$path\" in\n")
	for _, word := range all {
		fmt.Fprintf(&b, "  \"%s\") words=\"%s\" ;;\n", word.path, strings.Join(word.names, " "))
	}
	b.WriteString("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _tokenbus tokenbus\n")
	_, err := io.WriteString(w, b.String())
	return err
}
