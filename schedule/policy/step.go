package policy

import (
	"math"
	"slices"
	"strconv"
	"time"
)

// Policy is how requests for a model are placed. It does not change.
type Policy struct {
	Name      string
	Version   uint64
	Mode      string
	Steps     []Step
	Provider  *Provider           // nil if there is none
	Split     []Target            // of an alias: the models behind it
	Tenants   map[string][]Target // of an alias: the same for single tenants
	Adapter   *Adapter            // of adapters that are loaded when they are asked for, nil of others
	Shadow    *Shadow             // nil if there is none
	Admission Admission
	prefix    bool
	shares    bool
}

// SharesTenants reports whether prefix-aware may send a prompt where another tenant
// has sent the same one.
func (p *Policy) SharesTenants() bool { return p.shares }

// LooksAtPrefix reports whether a step of the policy needs the hashes of prompts.
func (p *Policy) LooksAtPrefix() bool { return p.prefix }

// Label names a step for receipts and records: policy/step/strategy.
func (p *Policy) Label(step int) string { return p.Steps[step].label }

// seal works out what a decision would otherwise have to each time.
func (p *Policy) seal() {
	for i := range p.Steps {
		s := &p.Steps[i]
		s.label = p.Name + "/" + s.Name + "/" + s.Strategy.String()
		for _, t := range s.Strategy.Terms {
			p.prefix = p.prefix || t.Name == "prefix-aware"
			p.shares = p.shares || s.Strategy.Options.ShareTenants
		}
	}
}

// Step is one stage of a policy: which agents it may use, and how it ranks them.
type Step struct {
	Name     string
	Match    Match
	Gates    []Gate
	Strategy StrategySpec
	MaxTries int           // 0: the scheduler's default
	MaxWait  time.Duration // for room at this step while a later one has some; 0: not at all
	// FirstByteTimeout is how long an attempt at a stream may take to its first byte
	// before another agent is tried; 0: as long as the request has time.
	FirstByteTimeout time.Duration
	Hedge            bool // a second attempt at a stream whose first byte takes long
	label            string
}

// StrategySpec is a strategy, or a weighted combination of several.
type StrategySpec struct {
	Terms   []Term
	Options Options
}

// String is the name of the strategy, or the names of a combination.
func (s *StrategySpec) String() string {
	name := ""
	for i, t := range s.Terms {
		if i > 0 {
			name += "+"
		}
		name += t.Name
	}
	return name
}

// Term is one strategy of a combination.
type Term struct {
	Name   string
	Weight float64
}

// Options of the strategies of a step.
type Options struct {
	LoadWeight   float64 // β of prefix-aware; 0 is the default
	Bound        float64 // of session-affinity; 0 is the default
	Sticky       string  // StickySoft or StickyHard, "" is soft
	ShareTenants bool    // prefix-aware: tenants share the engines' caches
}

// How session-affinity treats a session whose home is full.
const (
	StickySoft = "soft" // goes elsewhere
	StickyHard = "hard" // waits
)

// Provider is an outside provider to which requests go when nothing else is left.
type Provider struct{ Engine, Model string }

// Facts are what match may look at.
type Facts struct {
	Region, Engine, EngineVersion, Organization, Machine, GPUModel string
	Tags, Models                                                   []string
}

// Match is what an agent must be. What is empty does not matter.
type Match struct {
	Region, Engine, EngineVersion, Organization, Machine, GPUModel string
	Tags                                                           []string // it must have all of them
	Adapters                                                       []string // it must serve all of them
}

// Holds reports whether an agent is what the match asks for.
func (m *Match) Holds(f *Facts) bool {
	eq := func(want, is string) bool { return want == "" || want == is }
	if !eq(m.Region, f.Region) || !eq(m.Engine, f.Engine) || !eq(m.EngineVersion, f.EngineVersion) ||
		!eq(m.Organization, f.Organization) || !eq(m.Machine, f.Machine) || !eq(m.GPUModel, f.GPUModel) {
		return false
	}
	return all(m.Tags, f.Tags) && all(m.Adapters, f.Models)
}

func all(want, is []string) bool {
	for _, w := range want {
		if !slices.Contains(is, w) {
			return false
		}
	}
	return true
}

// Op compares a signal with the value of a gate.
type Op uint8

// The comparisons.
const (
	GT Op = iota
	GTE
	LT
	LTE
)

var opNames = [...]string{"gt", "gte", "lt", "lte"}

// Gate excludes agents by a signal.
type Gate struct {
	Signal         Signal
	Op             Op
	Value          float64
	ExcludeMissing bool // exclude an agent that does not report the signal
}

// Violated reports whether a value of the signal excludes its agent.
func (g *Gate) Violated(v float64) bool {
	if math.IsNaN(v) {
		return g.ExcludeMissing
	}
	switch g.Op {
	case GT:
		return v > g.Value
	case GTE:
		return v >= g.Value
	case LT:
		return v < g.Value
	}
	return v <= g.Value
}

// History reports whether the signal is about the past of the agent, so that an agent
// that gets nothing can't change it.
func (g *Gate) History() bool { return g.Signal == SuccessRate || g.Signal == ConsecutiveFailures }

// String is the gate as records and errors show it.
func (g *Gate) String() string {
	return g.Signal.String() + " " + [...]string{">", ">=", "<", "<="}[g.Op] + " " + strconv.FormatFloat(g.Value, 'g', -1, 64)
}

// Admission are limits that are enforced before a request is placed.
type Admission struct {
	MaxInputTokens, ImagesMax, AdmitBudgetTokens, MaxInflight int64
	MaxOccupancyShare                                         float64
	ShedIf                                                    []Gate
}

// Set is all policies in force at one time. It does not change.
type Set struct {
	version uint64
	global  *Policy
	models  map[string]*Policy
	aliases map[string][]string
	docs    []*Document
}

// Documents are what the set is made of.
func (s *Set) Documents() []*Document { return s.docs }

// Aliases are the models behind each alias, in the order of the document.
func (s *Set) Aliases() map[string][]string { return s.aliases }

// For is the policy of a model.
func (s *Set) For(model string) *Policy {
	if p, ok := s.models[model]; ok {
		return p
	}
	return s.global
}

// Version counts the changes of the documents that the set is made of.
func (s *Set) Version() uint64 { return s.version }

// Default is the set without any document: one step, least-loaded, no gates.
func Default() *Set {
	p := &Policy{Name: "default", Steps: []Step{{Name: "routing_policy", Strategy: StrategySpec{Terms: []Term{{Name: "least-loaded", Weight: 1}}}}}}
	p.seal()
	return &Set{global: p}
}
