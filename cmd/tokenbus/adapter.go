package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/overview"
)

type adapterCmd struct {
	orderFlags
	Verb  string        `arg:"" enum:"list,load,unload" help:"list, load or unload." placeholder:"VERB"`
	Name  string        `arg:"" optional:"" help:"Adapter, as clients name it." placeholder:"NAME"`
	Path  string        `help:"Where the engine finds the adapter: a directory on its machine, or an id at a hub." placeholder:"PATH"`
	Model string        `help:"Load it at all agents that serve this model." placeholder:"MODEL"`
	Agent []string      `help:"Only at this agent; may be repeated." placeholder:"ID"`
	Wait  time.Duration `help:"How long to wait for the engines." default:"3m"`
}

// Examples is printed first by --help.
func (*adapterCmd) Examples() string {
	return `tokenbus adapter list
tokenbus adapter load sql-lora --path /adapters/sql --model meta-llama/Llama-3.1-8B
tokenbus adapter load sql-lora --path /adapters/sql --agent gpu-1 --agent gpu-2
tokenbus adapter unload sql-lora`
}

// Run lists, loads or unloads LoRA adapters. It ends with 1 if an agent did not do it.
func (c *adapterCmd) Run(ctx context.Context) error {
	switch {
	case c.Verb == "list" && c.Name != "":
		return fmt.Errorf("list takes no name: %q", c.Name)
	case c.Verb != "list" && c.Name == "":
		return fmt.Errorf("%s: name the adapter", c.Verb)
	case c.Verb == "load" && c.Path == "":
		return errors.New("--path: is missing; say where the engine finds the adapter")
	case c.Verb != "load" && c.Path != "":
		return errors.New("--path: is only for load")
	case c.Verb != "load" && c.Model != "":
		return errors.New("--model: is only for load")
	case c.Verb == "load" && c.Model == "" && len(c.Agent) == 0:
		return errors.New("load: name the model that the adapter belongs to with --model, or agents with --agent")
	case c.Model != "" && len(c.Agent) > 0:
		return errors.New("--model, --agent: name one of both")
	case c.Wait <= 0:
		return fmt.Errorf("--wait: %v is not positive", c.Wait)
	}
	return c.with(ctx, "adapter", func(ctx context.Context, link *bus.Link) error {
		o, err := overview.Look(ctx, link)
		if err != nil {
			return err
		}
		if c.Verb == "list" {
			if c.JSON {
				return printJSON(os.Stdout, o.Adapters())
			}
			return o.WriteAdapters(os.Stdout)
		}
		ctx, cancel := context.WithTimeout(ctx, c.Wait)
		defer cancel()
		order := overview.AdapterOrder{Adapter: c.Name, Path: c.Path, Model: c.Model, Agents: c.Agent, Reason: c.Reason, By: operator()}
		do := order.Load
		if c.Verb == "unload" {
			do = order.Unload
		}
		said, err := do(ctx, link, o)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printJSON(os.Stdout, said)
		} else {
			err = said.Write(os.Stdout)
		}
		if err == nil && said.Failed() {
			return errExit(1)
		}
		return err
	})
}
