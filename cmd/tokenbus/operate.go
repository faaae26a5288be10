package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/overview"
)

// operatorFlags are the flags of the commands for operators.
type operatorFlags struct {
	logFlags
	natsFlags
	JSON    bool          `name:"json" help:"Print JSON; later versions only add fields."`
	Timeout time.Duration `help:"How long to wait for the bus." default:"5s"`
}

// errExit ends the process with a status of its own, after everything was printed.
type errExit int

func (e errExit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// with does something on the bus.
func (f operatorFlags) with(ctx context.Context, name string, do func(context.Context, *bus.Link) error) error {
	log, err := f.logger()
	if err != nil {
		return err
	}
	if f.Timeout <= 0 {
		return fmt.Errorf("--timeout: %v is not positive", f.Timeout)
	}
	dial, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	link, err := f.dial(dial, "tokenbus "+name, 1, log)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("no bus answers at %s within %v (--nats, --timeout)", strings.Join(f.NATS, ", "), f.Timeout)
		}
		return err
	}
	defer link.Close()
	return do(ctx, link)
}

// look shows the deployment.
func (f operatorFlags) look(ctx context.Context, name string, show func(io.Writer, overview.Overview) error) error {
	return f.with(ctx, name, func(ctx context.Context, link *bus.Link) error {
		o, err := overview.Look(ctx, link)
		if err != nil {
			return err
		}
		return show(os.Stdout, o)
	})
}

func printJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}

// operator names who gives an order.
func operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return name + "@" + hostname()
}

type statusCmd struct {
	operatorFlags
}

// Examples is printed first by --help.
func (*statusCmd) Examples() string {
	return `tokenbus status
tokenbus status --json --nats nats://bus:4222`
}

// Run prints one screen.
func (c *statusCmd) Run(ctx context.Context) error {
	return c.look(ctx, "status", func(w io.Writer, o overview.Overview) error {
		if c.JSON {
			return printJSON(w, o)
		}
		return o.WriteStatus(w)
	})
}

type agentsCmd struct {
	operatorFlags
	ID string `arg:"" optional:"" help:"Agent to show whole." placeholder:"ID"`
}

// Examples is printed first by --help.
func (*agentsCmd) Examples() string {
	return `tokenbus agents
tokenbus agents gpu-1
tokenbus agents --json`
}

// Run lists the agents, or shows one.
func (c *agentsCmd) Run(ctx context.Context) error {
	return c.look(ctx, "agents", func(w io.Writer, o overview.Overview) error {
		if c.ID == "" {
			if c.JSON {
				return printJSON(w, o.Agents)
			}
			return o.WriteAgents(w)
		}
		a, err := o.Agent(c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(w, a)
		}
		return a.Write(w)
	})
}

type modelsCmd struct {
	operatorFlags
	ID string `arg:"" optional:"" help:"Model to show with its agents." placeholder:"ID"`
}

// Examples is printed first by --help.
func (*modelsCmd) Examples() string {
	return `tokenbus models
tokenbus models meta-llama/Llama-3.1-8B`
}

// Run lists the models, or shows one.
func (c *modelsCmd) Run(ctx context.Context) error {
	return c.look(ctx, "models", func(w io.Writer, o overview.Overview) error {
		if c.ID == "" {
			if c.JSON {
				return printJSON(w, o.Models)
			}
			return o.WriteModels(w)
		}
		m, err := o.Model(c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(w, m)
		}
		return o.WriteModel(w, m)
	})
}

type psCmd struct {
	operatorFlags
	Agent string `help:"Only the requests at this agent." placeholder:"ID"`
}

// Examples is printed first by --help.
func (*psCmd) Examples() string {
	return `tokenbus ps
tokenbus ps --agent gpu-1 --json`
}

// Run lists the requests in flight.
func (c *psCmd) Run(ctx context.Context) error {
	return c.with(ctx, "ps", func(ctx context.Context, link *bus.Link) error {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		jobs, err := overview.Jobs(ctx, link, c.Agent)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(os.Stdout, jobs)
		}
		return overview.WriteJobs(os.Stdout, jobs)
	})
}
