package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

type policyCmd struct {
	logFlags
	natsFlags
	Action string   `arg:"" optional:"" enum:"list,show,history,check,apply,diff,rollback,delete" default:"list" help:"What to do: list, show NAME, history NAME, check FILE…, apply FILE…, diff FILE, rollback NAME, or delete NAME."`
	Args   []string `arg:"" optional:"" name:"name-or-file" help:"Name of a policy, or files and directories; a file's name without .yaml or .yml is the name of its policy."`
	To     uint64   `help:"Revision that rollback takes the text of; 0 is the last whose text differs from the current one." default:"0" env:"-" placeholder:"REVISION"`
	JSON   bool     `name:"json" help:"Print JSON: list, show and history."`

	out io.Writer
}

// Examples is printed first by --help.
func (*policyCmd) Examples() string {
	return `tokenbus policy check policies/
tokenbus policy diff policies/chat.yaml
tokenbus policy apply policies/*.yaml
tokenbus policy list
tokenbus policy history chat
tokenbus policy rollback chat --to 7`
}

// policyAction is what an action does, and how many arguments it takes.
type policyAction struct {
	run      func(*policyCmd, context.Context, *bus.Link) error
	args     string // what it is called with, for an error
	min, max int
	offline  bool
	json     bool
}

// manyFiles is no limit.
const manyFiles = 1 << 20

var policyActions = map[string]policyAction{
	"list":     {run: (*policyCmd).list, json: true},
	"show":     {run: (*policyCmd).show, args: "the name of a policy", min: 1, max: 1, json: true},
	"history":  {run: (*policyCmd).history, args: "the name of a policy", min: 1, max: 1, json: true},
	"check":    {run: (*policyCmd).check, args: "at least one file or directory", min: 1, max: manyFiles, offline: true},
	"apply":    {run: (*policyCmd).apply, args: "at least one file or directory", min: 1, max: manyFiles},
	"diff":     {run: (*policyCmd).diff, args: "one file", min: 1, max: 1},
	"rollback": {run: (*policyCmd).rollback, args: "the name of a policy", min: 1, max: 1},
	"delete":   {run: (*policyCmd).delete, args: "the name of a policy", min: 1, max: 1},
}

// Run does what the action says.
func (c *policyCmd) Run(ctx context.Context) error {
	if c.out == nil {
		c.out = os.Stdout
	}
	a := policyActions[c.Action]
	var problems []error
	if n := len(c.Args); n < a.min || n > a.max {
		want := a.args
		if want == "" {
			want = "nothing"
		}
		problems = append(problems, fmt.Errorf("policy %s takes %s, not %d arguments", c.Action, want, n))
	}
	if c.JSON && !a.json {
		problems = append(problems, fmt.Errorf("--json: policy %s prints no JSON", c.Action))
	}
	if c.To != 0 && c.Action != "rollback" {
		problems = append(problems, errors.New("--to: it is a flag of policy rollback"))
	}
	if len(problems) > 0 {
		return &cli.UsageError{Problems: problems}
	}
	if a.offline {
		return a.run(c, ctx, nil)
	}
	log, err := c.logger()
	if err != nil {
		return err
	}
	link, err := c.dial(ctx, "tokenbus policy", 1, log)
	if err != nil {
		return err
	}
	defer link.Close()
	return a.run(c, ctx, link)
}

// policyEntry is a policy as list and history print it. Fields are only ever added.
type policyEntry struct {
	Name     string    `json:"name"`
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"`
	Models   []string  `json:"models,omitempty"` // none: all that no other policy names
	Error    string    `json:"error,omitempty"`  // why the text does not load
	Text     string    `json:"text,omitempty"`
}

func entryOf(s bus.StoredPolicy) policyEntry {
	e := policyEntry{Name: s.Name, Revision: s.Revision, At: s.At.UTC()}
	d, err := policy.Parse(s.Name, []byte(s.Text))
	if err != nil {
		e.Error = err.Error()
		return e
	}
	e.Models = d.Models
	return e
}

func (c *policyCmd) list(ctx context.Context, link *bus.Link) error {
	all, err := link.Policies(ctx)
	if err != nil {
		return err
	}
	return c.table(all)
}

func (c *policyCmd) history(ctx context.Context, link *bus.Link) error {
	all, err := link.PolicyHistory(ctx, c.Args[0])
	if err != nil {
		return err
	}
	return c.table(all)
}

func (c *policyCmd) table(all []bus.StoredPolicy) error {
	entries := []policyEntry{}
	for _, s := range all {
		entries = append(entries, entryOf(s))
	}
	if c.JSON {
		return c.json(entries)
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tREVISION\tAT\tMODELS")
	for _, e := range entries {
		models := strings.Join(e.Models, ", ")
		switch {
		case e.Error != "":
			models = "(does not load)"
		case models == "":
			models = "(all others)"
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", e.Name, e.Revision, e.At.Format(time.RFC3339), models)
	}
	return t.Flush()
}

func (c *policyCmd) show(ctx context.Context, link *bus.Link) error {
	s, err := storedPolicy(ctx, link, c.Args[0])
	if err != nil {
		return err
	}
	if c.JSON {
		e := entryOf(s)
		e.Text = s.Text
		return c.json(e)
	}
	_, err = io.WriteString(c.out, withNewline(s.Text))
	return err
}

func (c *policyCmd) json(v any) error {
	e := json.NewEncoder(c.out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (c *policyCmd) delete(ctx context.Context, link *bus.Link) error {
	if err := link.DeletePolicy(ctx, c.Args[0]); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.out, "%s deleted\n", c.Args[0]); err != nil {
		return err
	}
	return checkStored(ctx, link)
}

// diff prints how a file differs from what is stored.
func (c *policyCmd) diff(ctx context.Context, link *bus.Link) error {
	files, err := policyFiles(c.Args)
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return fmt.Errorf("policy diff takes one file, and there are %d in %s", len(files), c.Args[0])
	}
	f := files[0]
	was, err := storedPolicy(ctx, link, f.name)
	if err != nil && !errors.Is(err, bus.ErrNoPolicy) {
		return err
	}
	if was.Text == f.text {
		return nil
	}
	if err := writeDiff(c.out, was.Text, f.text); err != nil {
		return err
	}
	if was.Revision == 0 {
		return fmt.Errorf("%s is new: no policy %s is stored", f.path, f.name)
	}
	return fmt.Errorf("%s differs from revision %d of %s", f.path, was.Revision, f.name)
}

// storedPolicy is the current text of a policy.
func storedPolicy(ctx context.Context, link *bus.Link, name string) (bus.StoredPolicy, error) {
	if err := bus.CheckPolicyName(name); err != nil {
		return bus.StoredPolicy{}, err
	}
	all, err := link.Policies(ctx)
	if err != nil {
		return bus.StoredPolicy{}, err
	}
	for _, s := range all {
		if s.Name == name {
			return s, nil
		}
	}
	return bus.StoredPolicy{}, fmt.Errorf("read policy %s: %w", name, bus.ErrNoPolicy)
}
