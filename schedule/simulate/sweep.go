package simulate

import (
	"context"
	"errors"
)

// Sweep is many runs: each strategy under each workload at each load.
type Sweep struct {
	Config     // what all runs have in common; its Strategy, Workload and Load do not matter
	Strategies []string
	Workloads  []string
	Loads      []float64
}

// Table is what came of one workload at one load.
type Table struct {
	Workload Workload
	Load     float64
	Capacity float64 // requests a second
	Chars    float64 // of a prompt, on average
	Answer   float64 // tokens
	Results  []Result
}

// Run runs the sweep and gives each table when it is there. It ends early with ctx,
// between two runs.
func (s Sweep) Run(ctx context.Context, table func(Table) error) error {
	if err := s.Validate(); err != nil {
		return err
	}
	for _, name := range s.Workloads {
		w, err := workload(name)
		if err != nil {
			return err
		}
		cfg := s.Config
		cfg.Workload = name
		t := generate(w, cfg.Seed, cfg.Requests)
		most := capacity(cfg, t)
		for _, load := range s.Loads {
			out := Table{Workload: w, Load: load, Capacity: most, Chars: t.chars, Answer: t.answer}
			for _, strategy := range s.Strategies {
				if err := ctx.Err(); err != nil {
					return err
				}
				cfg.Strategy, cfg.Load = strategy, load
				out.Results = append(out.Results, simulate(cfg, t, load*most).result(load*most))
			}
			if err := table(out); err != nil {
				return err
			}
		}
	}
	return nil
}

// Validate reports what is wrong with the sweep, each with the flag that sets it.
func (s Sweep) Validate() error {
	if len(s.Strategies) == 0 || len(s.Workloads) == 0 || len(s.Loads) == 0 {
		return errors.New("a sweep needs at least one strategy, one workload and one load")
	}
	// What all runs share would be said once for each.
	cfg := s.Config
	for i := range max(len(s.Strategies), len(s.Workloads), len(s.Loads)) {
		cfg.Strategy = s.Strategies[min(i, len(s.Strategies)-1)]
		cfg.Workload = s.Workloads[min(i, len(s.Workloads)-1)]
		cfg.Load = s.Loads[min(i, len(s.Loads)-1)]
		if err := cfg.Validate(); err != nil {
			return err
		}
	}
	return nil
}
