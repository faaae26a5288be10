package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
)

// bar is one bound on what Tokenbus may cost. score makes the figure that is
// compared of the medians of one measure.
type bar struct {
	of      string // case
	what    string
	measure string
	score   func(tokenbus, direct, proxy float64) float64
	least   bool // the figure has to be at least the limit, not at most
	limit   float64
	unit    string
	alone   bool // no proxy is in the figure
}

func ratio(tokenbus, _, proxy float64) float64 { return tokenbus / proxy }
func ratioAdded(tokenbus, direct, proxy float64) float64 {
	return (tokenbus - direct) / (proxy - direct)
}
func ratioDirect(tokenbus, direct, _ float64) float64 { return tokenbus / direct }
func added(tokenbus, direct, _ float64) float64       { return tokenbus - direct }
func itself(tokenbus, _, _ float64) float64           { return tokenbus }

// bars are what the project promises.
var bars = []bar{
	{of: "latency", what: "added latency p50", measure: latencyP50, score: ratioAdded, limit: 2, unit: "×"},
	{of: "throughput", what: "requests/s", measure: rate, score: ratio, least: true, limit: 1, unit: "×"},
	{of: "throughput", what: "CPU a request", measure: cpuRequest, score: ratio, limit: 1.25, unit: "×"},
	{of: "streams-64", what: "failed streams", measure: failed, score: itself, alone: true},
	{of: "streams-64", what: "CPU a token", measure: cpuToken, score: ratio, limit: 2.5, unit: "×"},
	{of: "streams-64", what: "added delay a token p50", measure: delayP50, score: ratioAdded, limit: 3, unit: "×"},
	{of: "streams-256", what: "failed streams", measure: failed, score: itself, alone: true},
	{of: "streams-256", what: "CPU a token", measure: cpuToken, score: ratio, limit: 2.5, unit: "×"},
	{of: "streams-256", what: "gap p99, against direct", measure: gapP99, score: ratioDirect, limit: 1.5, unit: "×", alone: true},
	{of: "streams-256", what: "added time to first byte p99", measure: firstP99, score: added, limit: 25, unit: " ms", alone: true},
	{of: "quiet", what: "failed streams", measure: failed, score: itself, alone: true},
	{of: "quiet", what: "memory a stream", measure: memoryEach, score: itself, limit: 45, unit: " KiB", alone: true},
	{of: "quiet", what: "requests left after the close", measure: activeLeft, score: itself, alone: true},
}

// report prints the tables. Bars whose measures are missing are left out.
func report(out io.Writer, command string, targets []string, results []result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %d CPUs, %s\n\n", command, runtime.NumCPU(), runtime.Version())
	b.WriteString("| case | bar | limit | against proxy | | against tuned proxy | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		for _, x := range bars {
			if x.of == r.name {
				b.WriteString(x.row(r))
			}
		}
	}
	b.WriteString("\nIn brackets: lowest and highest of the rounds.\n\n")
	fmt.Fprintf(&b, "| case | median of the rounds | %s |\n|---|---|%s\n", strings.Join(targets, " | "), strings.Repeat("---:|", len(targets)))
	for _, r := range results {
		for _, m := range r.measures() {
			fmt.Fprintf(&b, "| %s | %s |", r.name, m)
			for _, t := range targets {
				fmt.Fprintf(&b, " %s |", number(r.median(t, m)))
			}
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// row is the table row of one bar, or nothing.
func (x bar) row(r result) string {
	limit, sign := "", "≤ "
	if x.least {
		sign = "≥ "
	}
	limit = sign + number(x.limit) + x.unit
	if x.limit == 0 {
		limit = "none"
	}
	against := []string{proxy, tuned}
	if x.alone {
		against = []string{""}
	}
	row, known := fmt.Sprintf("| %s | %s | %s |", r.name, x.what, limit), false
	for _, p := range against {
		score := x.score(r.median(tokenbus, x.measure), r.median(direct, x.measure), r.median(p, x.measure))
		if math.IsNaN(score) {
			row += " | |"
			continue
		}
		known = true
		verdict := "met"
		if (x.least && score < x.limit) || (!x.least && score > x.limit) {
			verdict = "**not met**"
		}
		row += fmt.Sprintf(" %s%s%s | %s |", number(score), x.unit, x.spread(r, p), verdict)
	}
	if !known {
		return ""
	}
	if x.alone {
		row += " | |"
	}
	return row + "\n"
}

// spread tells the lowest and the highest figure of single rounds.
func (x bar) spread(r result, p string) string {
	var all []float64
	for i := range r.turns[tokenbus] {
		if s := x.score(r.at(tokenbus, i, x.measure), r.at(direct, i, x.measure), r.at(p, i, x.measure)); !math.IsNaN(s) {
			all = append(all, s)
		}
	}
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf(" (%s–%s)", number(slices.Min(all)), number(slices.Max(all)))
}

// at is a value of one round; not a number when there is none.
func (r result) at(target string, round int, measure string) float64 {
	if round < len(r.turns[target]) {
		if v, ok := r.turns[target][round][measure]; ok {
			return v
		}
	}
	return math.NaN()
}

// median is that of all rounds; not a number when there are no values.
func (r result) median(target, measure string) float64 {
	var all []float64
	for i := range r.turns[target] {
		if v := r.at(target, i, measure); !math.IsNaN(v) {
			all = append(all, v)
		}
	}
	return median(all)
}

// measures names what any target has a value of, in the order of the alphabet.
func (r result) measures() []string {
	names := map[string]bool{}
	for _, turns := range r.turns {
		for _, v := range turns {
			for name := range v {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// number prints three digits that count.
func number(f float64) string {
	switch {
	case math.IsNaN(f):
		return ""
	case f == 0:
		return "0"
	case math.Abs(f) >= 100:
		return fmt.Sprintf("%.0f", f)
	case math.Abs(f) >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
