package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule"
)

type explainCmd struct {
	logFlags
	natsFlags
	Request string        `arg:"" help:"Id of the request: the X-Request-Id of its answer." placeholder:"REQUEST_ID"`
	JSON    bool          `name:"json" help:"Print the records as JSON."`
	Wait    time.Duration `help:"How long to wait for the schedulers." default:"2s"`
}

// Examples is printed first by --help.
func (*explainCmd) Examples() string {
	return `tokenbus explain 0198c5e2-6f1c-7d5e-9a55-3f4f2b8a7c11
tokenbus explain --json my-request-id`
}

// explainPause is how long after one scheduler another may answer: a request that
// was handed over has a record at each.
const explainPause = 200 * time.Millisecond

// Run prints how a request was placed.
func (c *explainCmd) Run(ctx context.Context) error {
	log, err := c.logger()
	if err != nil {
		return err
	}
	link, err := c.dial(ctx, "tokenbus explain", 1, log)
	if err != nil {
		return err
	}
	defer link.Close()
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	answers, err := link.Gather(ctx, bus.ExplainSubject, []byte(c.Request), explainPause)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no scheduler has a record of the request %q: it never came, or newer records took its place (scheduler --decisions)", c.Request)
	}
	if err != nil {
		return err
	}
	var all []schedule.Decision
	for _, a := range answers {
		var d schedule.Decision
		if err := json.Unmarshal(a, &d); err != nil {
			return fmt.Errorf("read the answer of a scheduler: %w", err)
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b schedule.Decision) int { return a.Came.Compare(b.Came) })
	if c.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	for i, d := range all {
		if i > 0 {
			fmt.Println()
		}
		if err := writeDecision(os.Stdout, d); err != nil {
			return err
		}
	}
	return nil
}

// writeDecision prints one record for people.
func writeDecision(w io.Writer, d schedule.Decision) error {
	outcome := d.Outcome
	if outcome == "" {
		outcome = "under way"
	}
	fmt.Fprintf(w, "request    %s\nmodel      %s (%s)\nscheduler  %s\npolicy     %s, version %d\ncame       %s\nqueued     %d ms\noutcome    %s\n",
		d.Request, d.Model, d.API, d.Scheduler, d.Policy, d.Version, d.Came.Format(time.RFC3339Nano), d.QueuedMS, outcome)
	if d.Alias != "" {
		fmt.Fprintf(w, "asked for  %s, an alias\n", d.Alias)
	}
	if d.Blocks > 0 {
		fmt.Fprintf(w, "prompt     %d blocks\n", d.Blocks)
	}
	for _, walk := range d.Walks {
		fmt.Fprintf(w, "\n%d ms  step %s, %s: %s", walk.AtMS, walk.Step, walk.Strategy, walk.Verdict)
		if walk.Agent != "" {
			fmt.Fprintf(w, " %s", walk.Agent)
		}
		if walk.Result != "" {
			fmt.Fprintf(w, ", which ended as %s", walk.Result)
		}
		fmt.Fprintln(w)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  AGENT\tFILTER\tACTIVE\tCACHED\tSCORE")
		for _, a := range walk.Candidates {
			score := "-"
			if a.Filter == "passed" {
				score = fmt.Sprintf("%.4g", a.Score)
			}
			fmt.Fprintf(t, "  %s\t%s\t%d/%d\t%.0f%%\t%s\n", a.Agent, strings.TrimSpace(a.Filter+" "+a.Gate), a.Active, a.Capacity, 100*a.Matched, score)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if walk.Omitted > 0 {
			fmt.Fprintf(w, "  and %d more\n", walk.Omitted)
		}
	}
	if d.Omitted > 0 {
		fmt.Fprintf(w, "\n%d more looks are not kept\n", d.Omitted)
	}
	return nil
}
