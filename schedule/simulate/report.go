package simulate

import (
	"fmt"
	"io"
	"time"
)

// WriteHead says what the tables are.
func (s Sweep) WriteHead(w io.Writer) error {
	m := s.Model
	_, err := fmt.Fprintf(w, `This is a simulation in virtual time. The strategies, the prefix index and the fair queue are those of the scheduler; the engines are models. No number is a measurement of vLLM.

%d agents of %d slots, speeds %.2f to %.2f; %d scheduler(s); seed %d; %d requests a run. An engine of speed 1: prefill %v + %.0f characters/s that are not cached, one after the other; step %v + %v a sequence + %v during a prefill; prefix cache of %d characters.

Goodput is the share of requests with TTFT ≤ %v and mean ITL ≤ %v. Hit rate is the share of the characters of prompts that the engines had in their caches. Fairness is Jain's index of the share of its tokens that each tenant got within these limits. Imbalance is the most requests that one agent got, over the mean. Conversations that begin in the first quarter or the last tenth of a run are not measured. Load is a share of what the fleet can take when least-loaded places the requests.
`,
		s.Agents, m.Slots, 1-m.Spread, 1+m.Spread, s.Schedulers, s.Seed, s.Requests, m.PrefillBase, m.PrefillRate, m.StepBase, m.StepEach,
		m.StepPrefill, m.CacheChars, s.TTFTLimit, s.ITLLimit)
	return err
}

// Write writes a table in Markdown. How many decisions a second there were depends on
// the machine and is in a line below it, if it was measured.
func (t Table) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, `
### %s, load %g

Simulated: %s. %.1f requests/s of %.1f; a prompt has %.0f characters, an answer %.0f tokens, on average.

| strategy | TTFT p50, ms | p95, ms | p99, ms | goodput | hit rate | fairness | imbalance | refused |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
`,
		t.Workload.Name, t.Load, t.Workload.What, t.Load*t.Capacity, t.Capacity, t.Chars, t.Answer)
	if err != nil {
		return err
	}
	for _, r := range t.Results {
		_, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %.1f %% | %.1f %% | %.3f | %.2f | %d |\n",
			r.Strategy, ms(r.P50), ms(r.P95), ms(r.P99), 100*r.Goodput, 100*r.HitRate, r.Fairness, r.Imbalance, r.Refused)
		if err != nil {
			return err
		}
	}
	return t.writeSpeed(w)
}

func (t Table) writeSpeed(w io.Writer) error {
	line := ""
	for _, r := range t.Results {
		if r.Spent <= 0 {
			continue
		}
		if line != "" {
			line += ", "
		}
		line += fmt.Sprintf("%s %.0f", r.Strategy, float64(r.Decisions)/r.Spent.Seconds())
	}
	if line == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nDecisions/s on this machine, measured by its clock: %s.\n", line)
	return err
}

func ms(d time.Duration) string {
	return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond))
}
