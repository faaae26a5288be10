package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLayers: a key that a model's document has replaces the global one whole, also
// with an empty value; what it lacks is as in the global document.
func TestLayers(t *testing.T) {
	global := parse(t, "_default", `
mode: serverless
max_input_tokens: 100
max_inflight: 5
shed_if: {waiting_requests: {gt: 9}}
routing_policy: {strategy: round-robin, max_tries: 2, exclude_if: {srtt: {gt: 100}}}
fallback_chain: [{name: far, strategy: least-loaded}]
fallback_provider: {engine: openai, model: gpt}
`)
	cases := map[string]struct {
		text string
		edit func(*Policy)
	}{
		"nothing of its own": {"", func(*Policy) {}},
		"mode":               {"mode: reserved", func(p *Policy) { p.Mode = "reserved" }},
		"a limit":            {"max_inflight: 50", func(p *Policy) { p.Admission.MaxInflight = 50 }},
		"no limit":           {"max_inflight: 0", func(p *Policy) { p.Admission.MaxInflight = 0 }},
		"shed_if":            {"shed_if: {kv_cache_utilization: {gt: 0.9}}", func(p *Policy) { p.Admission.ShedIf = []Gate{{Signal: KVCacheUtilization, Op: GT, Value: 0.9}} }},
		"no shed_if":         {"shed_if: {}", func(p *Policy) { p.Admission.ShedIf = nil }},
		"routing_policy":     {"routing_policy: {strategy: least-tokens}", func(p *Policy) { p.Steps[0] = by("least-tokens").named("routing_policy") }},
		"fallback_chain":     {"fallback_chain: [{strategy: least-tokens}]", func(p *Policy) { p.Steps[1] = by("least-tokens").named("fallback_chain[0]") }},
		"no fallback_chain":  {"fallback_chain: []", func(p *Policy) { p.Steps = p.Steps[:1] }},
		"provider":           {"fallback_provider: {engine: anthropic, model: c}", func(p *Policy) { p.Provider = &Provider{"anthropic", "c"} }},
		"no provider":        {"fallback_provider: null", func(p *Policy) { p.Provider = nil }},
	}
	for name, c := range cases {
		set, err := NewSet(3, []*Document{parse(t, "m", "models: [m]\n"+c.text), global})
		if err != nil {
			t.Fatal(err)
		}
		want := *set.For("other")
		want.Name, want.Steps = "m", slices.Clone(want.Steps)
		c.edit(&want)
		want.seal()
		if diff := cmp.Diff(&want, set.For("m"), cmp.AllowUnexported(Policy{}, Step{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func (s *Step) named(name string) Step {
	s.Name = name
	return *s
}

// TestWithoutGlobal: what no document says is built in.
func TestWithoutGlobal(t *testing.T) {
	set, err := NewSet(9, []*Document{
		parse(t, "a", "models: [a]\nmode: reserved\n"),
		parse(t, "b", "models: [b, c]\nfallback_chain: [{strategy: round-robin}]\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{
		"a": "a/routing_policy/least-loaded", "b": "b/routing_policy/least-loaded b/fallback_chain[0]/round-robin",
		"c": "b/routing_policy/least-loaded b/fallback_chain[0]/round-robin", "d": "default/routing_policy/least-loaded",
		"A": "default/routing_policy/least-loaded",
	} {
		p := set.For(model)
		var labels []string
		for i := range p.Steps {
			labels = append(labels, p.Label(i))
		}
		if got := strings.Join(labels, " "); got != want || p.Version != 9 {
			t.Errorf("%s: %s, version %d, want %s", model, got, p.Version, want)
		}
	}
	if set, err = NewSet(1, nil); err != nil || set.For("m").Label(0) != Default().For("m").Label(0) {
		t.Errorf("no documents at all: %v", err)
	}
}

// TestConflicts: documents that contradict each other are refused, in words that name
// them, whatever their order.
func TestConflicts(t *testing.T) {
	const mode = "mode: reserved\n"
	cases := map[string]struct {
		docs map[string]string
		want string
	}{
		"a model twice":              {map[string]string{"a": "models: [x, y]", "b": "models: [y]"}, `the model "y" is in two documents, a and b`},
		"a global with models":       {map[string]string{"_default": "models: [x]"}, "_default names models; it is the document of all others, so remove the key, or give it another name"},
		"no models":                  {map[string]string{"a": mode, "b": "models: [x]"}, "a names no models; add the key, or call it _default to make it the document of all others"},
		"no models, beside a global": {map[string]string{"a": mode, "_default": mode}, "a names no models; add the key, or call it _default to make it the document of all others"},
		"two at once": {map[string]string{"a": "models: [x]", "b": "models: [x]", "c": mode},
			"the model \"x\" is in two documents, a and b\nc names no models; add the key, or call it _default to make it the document of all others"},
	}
	for name, c := range cases {
		var docs []*Document
		for n, text := range c.docs {
			docs = append(docs, parse(t, n, text))
		}
		for range 2 {
			if _, err := NewSet(1, docs); err == nil || err.Error() != c.want {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
			slices.Reverse(docs)
		}
	}
	d := parse(t, "a", mode)
	if _, err := NewSet(1, []*Document{d, d}); err == nil || !strings.Contains(err.Error(), "there are two documents with the name a") {
		t.Errorf("the same name twice: %v", err)
	}
	set, err := NewSet(1, []*Document{d})
	if err != nil || set.For("m").Name != "a" || set.For("m").Mode != "reserved" {
		t.Errorf("a single document of any name is the global one: %v", err)
	}
}

// TestGates: every operator, at the value and beside it, and what is unknown.
func TestGates(t *testing.T) {
	unknown := Unknown()[SRTT]
	cases := map[Op]struct {
		below, at, above bool
		text             string
	}{
		GT:  {false, false, true, "srtt > 200.5"},
		GTE: {false, true, true, "srtt >= 200.5"},
		LT:  {true, false, false, "srtt < 200.5"},
		LTE: {true, true, false, "srtt <= 200.5"},
	}
	for op, c := range cases {
		d := parse(t, "p", "routing_policy: {strategy: least-loaded, exclude_if: {srtt: {"+opNames[op]+": 200.5}}}")
		g := d.fields.first.Gates[0]
		if g.Violated(200) != c.below || g.Violated(200.5) != c.at || g.Violated(201) != c.above || g.String() != c.text {
			t.Errorf("%s: %v at 200, %v at 200.5, %v at 201", &g, g.Violated(200), g.Violated(200.5), g.Violated(201))
		}
		if g.Violated(unknown) {
			t.Errorf("%s excludes an agent that does not report it", &g)
		}
		if g.ExcludeMissing = true; !g.Violated(unknown) {
			t.Errorf("%s with on_missing: exclude keeps an agent that does not report it", &g)
		}
	}
	for s := range NumSignals {
		d := parse(t, "p", "routing_policy: {strategy: least-loaded, exclude_if: {"+s.String()+": {gte: 0.5}}}")
		g := d.fields.first.Gates[0]
		if history := s == SuccessRate || s == ConsecutiveFailures; g.Signal != s || g.History() != history {
			t.Errorf("%s: %+v", s, g)
		}
	}
}

// TestMatch: all fields must be equal, and all tags and adapters be there.
func TestMatch(t *testing.T) {
	facts := Facts{Region: "eu", Engine: "vllm", EngineVersion: "1", Organization: "o", Machine: "m", GPUModel: "g", Tags: []string{"a", "b"}, Models: []string{"base", "lora"}}
	for text, want := range map[string]bool{
		"{}":                         true,
		"{region: eu}":               true,
		"{region: EU}":               false,
		"{engine: vllm, region: us}": false,
		"{engine: vllm, engine_version: 1, organization: o, machine: m, gpu_model: g}": true,
		"{engine_version: 2}": false, "{organization: x}": false, "{machine: x}": false, "{gpu_model: x}": false,
		"{tags: [b, a]}": true, "{tags: [a, c]}": false, "{tags: []}": true,
		"{adapters: [lora]}": true, "{adapters: [lora, other]}": false,
	} {
		d := parse(t, "p", "routing_policy: {strategy: least-loaded, match: "+text+"}")
		if got := d.fields.first.Match.Holds(&facts); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestLookAllocates: what a decision asks of a policy allocates nothing.
func TestLookAllocates(t *testing.T) {
	set, err := NewSet(1, reference(t))
	if err != nil {
		t.Fatal(err)
	}
	facts := Facts{Region: "eu-west", Tags: []string{"h100", "prod"}}
	held := 0
	if n := testing.AllocsPerRun(100, func() {
		for _, model := range [...]string{"Qwen/Qwen2.5-7B-Instruct", "anything"} {
			s := &set.For(model).Steps[0]
			if s.Match.Holds(&facts) {
				held++
			}
			for i := range s.Gates {
				if s.Gates[i].Violated(0.5) {
					held++
				}
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNewSetOrder: the order of the documents does not matter, and no model is lost.
func TestNewSetOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := make([]*Document, rapid.IntRange(0, 6).Draw(t, "docs"))
		for i := range docs {
			docs[i] = &Document{Name: string(rune('a' + i)), Models: []string{string(rune('A' + i))}, has: map[string]bool{}}
		}
		shuffled := rapid.Permutation(docs).Draw(t, "order")
		set, err := NewSet(1, shuffled)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			if set.For(d.Models[0]).Name != d.Name {
				t.Fatalf("%s has the policy %s", d.Models[0], set.For(d.Models[0]).Name)
			}
		}
	})
}
