// Command tokenbus puts one OpenAI-compatible endpoint in front of any number of
// inference servers, connected by NATS.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

type grammar struct {
	Up         upCmd         `cmd:"" help:"Run everything in one process: the bus, a gateway, a scheduler, and an agent for each engine."`
	Bus        busCmd        `cmd:"" help:"Run a NATS server with JetStream."`
	Gateway    gatewayCmd    `cmd:"" help:"Run a gateway: HTTP clients in, the bus out."`
	Scheduler  schedulerCmd  `cmd:"" help:"Run a scheduler: gives each request to one agent."`
	Agent      agentCmd      `cmd:"" help:"Run an agent beside one engine."`
	Sim        simCmd        `cmd:"" help:"Run a simulated vLLM, for trying things without a GPU."`
	Simulate   simulateCmd   `cmd:"" help:"Compare strategies in a simulation of a fleet, in virtual time."`
	Policy     policyCmd     `cmd:"" help:"Check, apply and look at the policies of the models."`
	Explain    explainCmd    `cmd:"" help:"Tell why a request went where it went."`
	Status     statusCmd     `cmd:"" help:"Show the deployment on one screen: parts, agents, models, what is wrong and its fix."`
	Agents     agentsCmd     `cmd:"" help:"List the agents, or show one."`
	Models     modelsCmd     `cmd:"" help:"List the models, or show one with its agents."`
	Ps         psCmd         `cmd:"" help:"List the requests in flight."`
	Drain      drainCmd      `cmd:"" help:"Let agents finish what they have and take nothing new."`
	Cordon     cordonCmd     `cmd:"" help:"Let agents take nothing new."`
	Resume     resumeCmd     `cmd:"" help:"Let agents take requests again."`
	Capacity   capacityCmd   `cmd:"" help:"Change how many requests an agent takes at one time."`
	Adapter    adapterCmd    `cmd:"" help:"Load and unload LoRA adapters at the engines of a model."`
	Watch      watchCmd      `cmd:"" help:"Print what happens, as it happens."`
	Doctor     doctorCmd     `cmd:"" help:"Check a deployment, or what it needs, and say how to fix what is wrong."`
	Completion completionCmd `cmd:"" help:"Print the script that makes a shell complete commands and flags."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// Examples is printed first by --help.
func (grammar) Examples() string {
	return `tokenbus up --demo
tokenbus up --engine http://127.0.0.1:8000
tokenbus agent --nats nats://bus:4222 --id gpu-1 --engine-url http://127.0.0.1:8000 --capacity 64`
}

func main() {
	// The first signal drains; a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	var g grammar
	p, err := cli.Parse(&g, os.Args[1:], cli.Kong(
		kong.Name("tokenbus"),
		kong.Description("One OpenAI-compatible endpoint in front of any number of inference servers, connected by NATS."),
	))
	if err == nil {
		err = p.Run(ctx)
	}
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return // told to stop, be it before everything had started
	}
	var exit errExit
	if errors.As(err, &exit) {
		os.Exit(int(exit))
	}
	fmt.Fprintln(os.Stderr, "tokenbus:", err)
	var usage *cli.UsageError
	if errors.As(err, &usage) {
		os.Exit(usage.ExitCode())
	}
	os.Exit(1)
}
