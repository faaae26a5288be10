package policy

import (
	"slices"
	"strings"
)

// onMissing is the key of a gate that says what to do with agents that do not report
// the signal.
const onMissing = "on_missing"

var (
	allSignals  = signalNames[:]
	shedSignals = []string{KVCacheUtilization.String(), WaitingRequests.String()}
	gateKeys    = append(slices.Clone(opNames[:]), onMissing)
)

// gates reads a mapping from signals to comparisons. The gates come in the order of
// the signals.
func (r *reader) gates(v value, signals []string, missing bool) []Gate {
	if v.null() {
		return nil
	}
	keys := gateKeys
	if !missing {
		keys = opNames[:]
	}
	var gates []Gate
	r.each(v, signals, func(key string, v value) {
		s, _ := SignalOf(key)
		gates = append(gates, r.gate(v, s, keys))
	})
	slices.SortFunc(gates, func(a, b Gate) int { return int(a.Signal) - int(b.Signal) })
	return gates
}

func (r *reader) gate(v value, s Signal, keys []string) Gate {
	g := Gate{Signal: s}
	if v.null() {
		r.problem(v, "exactly one of %s is needed", strings.Join(opNames[:], ", "))
		return g
	}
	seen := r.each(v, keys, func(key string, v value) {
		if key == onMissing {
			g.ExcludeMissing = r.oneOf(v, "exclude", "skip") == "exclude"
			return
		}
		g.Op, g.Value = Op(slices.Index(opNames[:], key)), r.limit(v, s)
	})
	ops, unknown := 0, false
	for key := range seen {
		if slices.Contains(opNames[:], key) {
			ops++
		}
		unknown = unknown || !slices.Contains(keys, key)
	}
	// A misspelt comparison has been reported already.
	if seen != nil && (ops > 1 || ops == 0 && !unknown) {
		r.problem(v, "exactly one of %s is needed", strings.Join(opNames[:], ", "))
	}
	return g
}

// limit reads the value that a signal is compared with.
func (r *reader) limit(v value, s Signal) float64 {
	f, ok := r.number(v)
	switch {
	case !ok:
	case f < 0:
		r.problem(v, "a number from 0 up is needed, not %s", v.kind())
	case f > 1 && f <= 100 && s.fraction():
		r.problem(v, "%s is a fraction from 0 to 1, so write %s for %s percent", s, plain(f/100), plain(f))
	case f > 1 && s.fraction():
		r.problem(v, "%s is a fraction from 0 to 1, not %s", s, v.kind())
	}
	return f
}

// fraction reports whether the signal is a number from 0 to 1.
func (s Signal) fraction() bool {
	switch s {
	case CapacityUtilization, SuccessRate, KVCacheUtilization, PrefixHitRate:
		return true
	}
	return strings.HasSuffix(s.String(), "_percent")
}
