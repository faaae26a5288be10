package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// orderFlags are the flags of the commands that order something.
type orderFlags struct {
	operatorFlags
	Reason string `help:"Why, for whoever looks at the agent." placeholder:"TEXT"`
}

// orderTo gives an order to an agent, or keeps it for one that is away.
func (f orderFlags) orderTo(ctx context.Context, link *bus.Link, id, verb string, arg map[string]any, edit func(*bus.Order)) (bus.OrderAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	if arg == nil {
		arg = make(map[string]any)
	}
	arg["reason"], arg["by"] = f.Reason, operator()
	var said bus.OrderAnswer
	err := link.Command(ctx, id, verb, arg, &said)
	if !errors.Is(err, bus.ErrNoAgent) {
		return said, err
	}
	// Nobody answers to the id. An order for one that was never there is a mistake.
	var c bus.Counters
	found, lookErr := link.GetJSON(ctx, bus.BucketCounters, bus.AgentCountersKey(id), &c)
	if lookErr != nil || !found {
		return said, err
	}
	o, _, err := link.ChangeOrder(ctx, id, func(o *bus.Order) {
		edit(o)
		o.Reason, o.By, o.At = f.Reason, operator(), time.Now().UTC().Round(0)
	})
	if err != nil {
		return said, err
	}
	said.ID, said.Status, said.Order = id, bus.StatusGone, &o
	said.Warning = "the agent is not on the bus; it obeys when it starts"
	return said, nil
}

// each orders something of several agents and prints what came of it.
func (f orderFlags) each(ctx context.Context, name string, ids []string, order func(context.Context, *bus.Link, string) (bus.OrderAnswer, error)) error {
	return f.with(ctx, name, func(ctx context.Context, link *bus.Link) error {
		var errs []error
		answers := []bus.OrderAnswer{}
		for _, id := range ids {
			said, err := order(ctx, link, id)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			answers = append(answers, said)
			if f.JSON {
				continue
			}
			fmt.Printf("%s is %s, %d of %d slots are taken\n", said.ID, said.Status, said.Active, said.Capacity)
			if said.Warning != "" {
				fmt.Fprintln(os.Stderr, "warning:", said.Warning)
			}
		}
		if f.JSON {
			errs = append(errs, printJSON(os.Stdout, answers))
		}
		return errors.Join(errs...)
	})
}

type drainCmd struct {
	orderFlags
	ID   []string      `arg:"" help:"Agents." placeholder:"ID"`
	Cut  time.Duration `help:"Cut the requests that are still under way after this time; 0 never does." default:"0s"`
	Wait bool          `help:"Wait until nothing is under way any more."`
}

// Examples is printed first by --help.
func (*drainCmd) Examples() string {
	return `tokenbus drain gpu-1 --wait --reason 'new driver'
tokenbus drain gpu-1 gpu-2 --cut 10m`
}

// Run orders the agents to finish what they have and to take nothing new.
func (c *drainCmd) Run(ctx context.Context) error {
	if c.Cut < 0 {
		return fmt.Errorf("--cut: %v is negative", c.Cut)
	}
	return c.each(ctx, "drain", c.ID, func(ctx context.Context, link *bus.Link, id string) (bus.OrderAnswer, error) {
		said, err := c.orderTo(ctx, link, id, "drain", map[string]any{"timeout_ms": c.Cut.Milliseconds()}, func(o *bus.Order) { o.Drain, o.CutAt = true, time.Time{} })
		for c.Wait && err == nil && said.Active > 0 {
			select {
			case <-ctx.Done():
				return said, ctx.Err()
			case <-time.After(250 * time.Millisecond):
			}
			if said, err = c.ping(ctx, link, id); errors.Is(err, bus.ErrNoAgent) {
				return said, fmt.Errorf("%w: it left while it drained", err)
			}
			if err == nil && said.Status != bus.StatusDraining {
				return said, fmt.Errorf("%s was told to resume while it drained", id)
			}
		}
		return said, err
	})
}

func (c *drainCmd) ping(ctx context.Context, link *bus.Link, id string) (said bus.OrderAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return said, link.Command(ctx, id, "ping", nil, &said)
}

type cordonCmd struct {
	orderFlags
	ID []string `arg:"" help:"Agents." placeholder:"ID"`
}

// Examples is printed first by --help.
func (*cordonCmd) Examples() string { return `tokenbus cordon gpu-1 --reason 'looks slow'` }

// Run orders the agents to take nothing new.
func (c *cordonCmd) Run(ctx context.Context) error {
	return c.each(ctx, "cordon", c.ID, func(ctx context.Context, link *bus.Link, id string) (bus.OrderAnswer, error) {
		return c.orderTo(ctx, link, id, "cordon", nil, func(o *bus.Order) { o.Cordon = true })
	})
}

type resumeCmd struct {
	orderFlags
	ID []string `arg:"" help:"Agents." placeholder:"ID"`
}

// Examples is printed first by --help.
func (*resumeCmd) Examples() string { return `tokenbus resume gpu-1` }

// Run lifts drain and cordon.
func (c *resumeCmd) Run(ctx context.Context) error {
	return c.each(ctx, "resume", c.ID, func(ctx context.Context, link *bus.Link, id string) (bus.OrderAnswer, error) {
		return c.orderTo(ctx, link, id, "resume", nil, func(o *bus.Order) { o.Drain, o.Cordon, o.CutAt = false, false, time.Time{} })
	})
}

type capacityCmd struct {
	orderFlags
	ID string `arg:"" help:"Agent." placeholder:"ID"`
	N  string `arg:"" help:"Requests that its engine gets at one time; auto takes the agent's own again." placeholder:"N|auto"`
}

// Examples is printed first by --help.
func (*capacityCmd) Examples() string {
	return `tokenbus capacity gpu-1 32
tokenbus capacity gpu-1 auto`
}

// Run changes the capacity of an agent.
func (c *capacityCmd) Run(ctx context.Context) error {
	n := 0
	if c.N != "auto" {
		var err error
		if n, err = strconv.Atoi(c.N); err != nil || n < 1 || n > bus.MaxCapacity {
			return fmt.Errorf("%q is neither auto nor a number between 1 and %d", c.N, bus.MaxCapacity)
		}
	}
	return c.each(ctx, "capacity", []string{c.ID}, func(ctx context.Context, link *bus.Link, id string) (bus.OrderAnswer, error) {
		return c.orderTo(ctx, link, id, "capacity", map[string]any{"capacity": n}, func(o *bus.Order) { o.Capacity = n })
	})
}
