package policy

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// maxWait bounds how long a request may wait at one step.
const maxWait = time.Hour

// maxListed bounds the lists of a match.
const maxListed = 64

var (
	stepKeys  = []string{"match", "exclude_if", "strategy", "options", "max_tries", "max_wait", "first_byte_timeout", "hedge"}
	chainKeys = append([]string{"name"}, stepKeys...)
	matchKeys = []string{"region", "engine", "engine_version", "organization", "machine", "gpu_model", "tags", "adapters"}
)

// step reads one step. Only a step of the chain can have a name of its own.
func (r *reader) step(v value, name string, named bool) Step {
	s := Step{Name: name}
	keys := stepKeys
	if named {
		keys = chainKeys
	}
	if v.null() {
		r.problem(v, "strategy is missing")
		return s
	}
	var options *value
	seen := r.each(v, keys, func(key string, v value) {
		switch key {
		case "name":
			if n := r.text(v); n != "" {
				s.Name = n
			}
		case "match":
			s.Match = r.match(v)
		case "exclude_if":
			s.Gates = r.gates(v, allSignals, true)
		case "strategy":
			s.Strategy.Terms = r.strategy(v)
		case "options":
			options = &v
		case "max_tries":
			s.MaxTries = int(r.count(v, maxTries))
		case "max_wait":
			s.MaxWait = r.duration(v, maxWait)
		case "first_byte_timeout":
			s.FirstByteTimeout = r.duration(v, maxWait)
		case "hedge":
			s.Hedge = r.flag(v)
		}
	})
	if seen != nil {
		r.need(v, seen, "strategy")
	}
	if options != nil {
		s.Strategy.Options = r.options(*options, s.Strategy.Terms)
	}
	return s
}

func (r *reader) match(v value) Match {
	var m Match
	if v.null() {
		return m
	}
	texts := map[string]*string{
		"region": &m.Region, "engine": &m.Engine, "engine_version": &m.EngineVersion,
		"organization": &m.Organization, "machine": &m.Machine, "gpu_model": &m.GPUModel,
	}
	r.each(v, matchKeys, func(key string, v value) {
		switch key {
		case "tags":
			m.Tags = r.texts(v, maxListed)
		case "adapters":
			m.Adapters = r.texts(v, maxListed)
		default:
			if v.null() || v.node.Kind == yaml.ScalarNode && v.node.Value == "" {
				return // any
			}
			*texts[key] = r.text(v)
		}
	})
	return m
}

// alone are strategies that rank by turn or by chance, so that their ranks can't be
// weighed against others.
var alone = []string{"power-of-two", "round-robin"}

// otherNames are names of strategies elsewhere, and what they are called here.
var otherNames = map[string]string{"lowest-srtt": "lowest-latency", "best-ttft": "lowest-latency", "best-itl": "lowest-latency"}

// strategy reads a name, or weights by name.
func (r *reader) strategy(v value) []Term {
	if v.node.Kind == yaml.ScalarNode && !v.null() {
		if !r.strategyName(v, v.node.Value) {
			return nil
		}
		return []Term{{Name: v.node.Value, Weight: 1}}
	}
	if v.node.Kind != yaml.MappingNode || len(v.node.Content) == 0 {
		r.problem(v, "the name of a strategy is needed, or a weight for each of several, not %s", v.kind())
		return nil
	}
	var terms []Term
	r.each(v, r.keysOf(v), func(key string, v value) {
		if !r.strategyName(v, key) {
			return
		}
		w, ok := r.number(v)
		if ok && (w <= 0 || w > maxWeight) {
			r.problem(v, "a weight above 0 and up to %g is needed, not %s", float64(maxWeight), v.kind())
			return
		}
		terms = append(terms, Term{Name: key, Weight: w})
	})
	if len(terms) > 1 {
		for _, t := range terms {
			if slices.Contains(alone, t.Name) {
				r.problem(v.at(t.Name), "%s can't be combined with other strategies", t.Name)
			}
		}
	}
	return terms
}

const maxWeight = 1e6

// keysOf gives all keys of a mapping, for one whose keys are checked later.
func (r *reader) keysOf(v value) []string {
	var keys []string
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		keys = append(keys, v.node.Content[i].Value)
	}
	return keys
}

func (r *reader) strategyName(v value, name string) bool {
	if _, ok := strategies[name]; ok {
		return true
	}
	if ours, ok := otherNames[name]; ok {
		r.problem(v, "there is no strategy %s; the nearest is %s", name, ours)
		return false
	}
	known := Strategies()
	if guess := suggest(name, known); guess != "" {
		r.problem(v, "unknown strategy %q, did you mean %s?", shorten(name), guess)
	} else {
		r.problem(v, "unknown strategy %q; it is one of %s", shorten(name), strings.Join(known, ", "))
	}
	return false
}

// optionOf is the strategy that each option belongs to.
var optionOf = map[string]string{
	"load_weight": "prefix-aware", "bound": "session-affinity", "sticky": "session-affinity", "share_tenants": "prefix-aware",
}

func (r *reader) options(v value, terms []Term) Options {
	var o Options
	if v.null() {
		return o
	}
	r.each(v, []string{"load_weight", "bound", "sticky", "share_tenants"}, func(key string, v value) {
		owner := optionOf[key]
		if len(terms) > 0 && !slices.ContainsFunc(terms, func(t Term) bool { return t.Name == owner }) {
			r.problem(v, "this is an option of %s, which the step does not use", owner)
			return
		}
		switch key {
		case "load_weight":
			o.LoadWeight = r.within(v, 0, maxWeight)
		case "bound":
			o.Bound = r.within(v, 1, maxWeight)
		case "sticky":
			o.Sticky = r.oneOf(v, StickySoft, StickyHard)
			if o.Sticky == StickyHard && len(terms) > 1 {
				r.problem(v, "a hard session has one home, so other strategies have no say; remove them, or use soft")
			}
		case "share_tenants":
			o.ShareTenants = r.flag(v)
		}
	})
	return o
}

// within reads a number between two.
func (r *reader) within(v value, lo, hi float64) float64 {
	f, ok := r.number(v)
	if ok && (f < lo || f > hi) {
		r.problem(v, "a number from %s to %s is needed, not %s", plain(lo), plain(hi), v.kind())
	}
	return math.Min(math.Max(f, lo), hi)
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
