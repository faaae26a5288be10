package cli

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// exampler is a command that shows how it is used. The text is one or more
// lines; common indentation is removed.
type exampler interface{ Examples() string }

// printHelp prints the usage and the examples, then what the parser prints:
// the description, the flags and the subcommands.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	node, usage := ctx.Selected(), ""
	if node == nil {
		node = ctx.Model.Node
		usage = ctx.Model.Name + ctx.Model.Summary()
	} else {
		usage = ctx.Model.Name + " " + node.Summary()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n", usage)
	if e, ok := node.Target.Addr().Interface().(exampler); ok {
		b.WriteString("\nExamples:\n")
		for _, line := range dedent(e.Examples()) {
			b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
		}
	}
	if _, err := fmt.Fprint(ctx.Stdout, b.String()); err != nil {
		return fmt.Errorf("print the help: %w", err)
	}
	options.NoAppSummary = true
	return kong.DefaultHelpPrinter(options, ctx)
}

// dedent splits text into lines without the indentation that all of them share
// and without empty lines around it.
func dedent(text string) []string {
	lines := strings.Split(strings.Trim(strings.ReplaceAll(text, "\t", "    "), "\n "), "\n")
	indent := -1
	for _, line := range lines[1:] { // the first has lost its indentation above
		if body := strings.TrimLeft(line, " "); body != "" && (indent < 0 || len(line)-len(body) < indent) {
			indent = len(line) - len(body)
		}
	}
	for i, line := range lines[1:] {
		lines[i+1] = line[min(len(line), max(0, indent)):]
	}
	return lines
}

// describe is the help of a flag with its default and its variable.
func (m *model) describe(v *kong.Value) string {
	var facts []string
	if v.Default != "" && !kong.HasInterpolatedVar(v.OrigHelp, "default") && !isSecret(v.Target.Type()) {
		facts = append(facts, "default "+v.Default)
	}
	if v.Flag != nil {
		for _, name := range m.env[v.Flag] {
			facts = append(facts, "$"+name)
		}
	}
	if len(facts) == 0 {
		return v.Help
	}
	help, stop := strings.CutSuffix(v.Help, ".")
	help = strings.TrimSpace(help + " (" + strings.Join(facts, ", ") + ")")
	if stop {
		help += "."
	}
	return help
}

// placeHolder is what stands for the value of a flag in its help. The default
// would be the parser's choice; it is in the text already.
func placeHolder(flag *kong.Flag) string {
	if flag.Enum != "" {
		return strings.Join(flag.EnumSlice(), "|")
	}
	t := flag.Target.Type()
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		t = t.Elem()
	case reflect.Map:
		return "KEY=VALUE"
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "DURATION"
	case t == reflect.TypeFor[Bytes]():
		return "SIZE"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64:
		return "NUMBER"
	}
	return strings.ToUpper(flag.Name)
}
