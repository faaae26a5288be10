package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tokenbus/tokenbus/schedule/policy"
	"github.com/tokenbus/tokenbus/schedule/simulate"
)

type simulateCmd struct {
	Agents     int           `help:"Agents of the fleet." default:"16"`
	Schedulers int           `help:"Schedulers, each with a view of its own." default:"1"`
	Seed       uint64        `help:"Seed of traffic and fleet; the same seed gives the same tables." default:"1"`
	Strategies []string      `help:"Strategies to compare; all is each one that there is." default:"all" placeholder:"NAME"`
	Workloads  []string      `help:"Workloads: multi-turn, shared-prompt, no-prefix, bursts, skewed-tenants, long-tail; all is each of them." default:"all" placeholder:"NAME"`
	Loads      []string      `help:"Loads, as shares of what the fleet can take with least-loaded." default:"0.7,0.9,0.95" placeholder:"SHARE"`
	Requests   int           `help:"Requests of each run; 0 is 3,000 for each agent." default:"0"`
	TTFTLimit  time.Duration `name:"ttft-limit" help:"Longest time to the first token of a good request." default:"2s"`
	ITLLimit   time.Duration `name:"itl-limit" help:"Longest mean time between two tokens of a good request." default:"40ms"`
	Speed      bool          `help:"Measure decisions a second, too; only these depend on the machine." default:"true" negatable:""`
}

// Examples is printed first by --help.
func (*simulateCmd) Examples() string {
	return `tokenbus simulate
tokenbus simulate --agents 64 --workloads multi-turn --loads 0.9 --strategies least-loaded,prefix-aware
tokenbus simulate --agents 1000 --schedulers 4 --workloads shared-prompt --loads 0.9`
}

// requestsEach is how many requests a run has for each agent by default.
const requestsEach = 3000

// Run simulates and prints tables.
func (c *simulateCmd) Run(ctx context.Context) error {
	s := simulate.Sweep{
		Config: simulate.Config{
			Agents: c.Agents, Schedulers: c.Schedulers, Seed: c.Seed, Requests: c.Requests, TTFTLimit: c.TTFTLimit, ITLLimit: c.ITLLimit,
			Model: simulate.DefaultModel(),
		},
		Strategies: c.Strategies, Workloads: c.Workloads,
	}
	if c.Requests == 0 {
		s.Requests = requestsEach * c.Agents
	}
	if slices.Equal(c.Strategies, []string{"all"}) {
		s.Strategies = policy.Strategies()
	}
	if slices.Equal(c.Workloads, []string{"all"}) {
		s.Workloads = simulate.Workloads()
	}
	for _, text := range c.Loads {
		load, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("--loads: %q is not a number", text)
		}
		s.Loads = append(s.Loads, load)
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if c.Speed {
		began := time.Now()
		s.Watch = func() time.Duration { return time.Since(began) }
	}
	if err := s.WriteHead(os.Stdout); err != nil {
		return err
	}
	return s.Run(ctx, func(t simulate.Table) error { return t.Write(os.Stdout) })
}
