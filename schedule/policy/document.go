package policy

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// MaxDocument is the largest text of a policy document, in bytes.
const MaxDocument = 1 << 20

// Document is one policy document. It does not change.
type Document struct {
	Name   string
	Text   string
	Models []string // empty: it is for every model that no other document names

	has    map[string]bool // which keys stand at its top level
	fields fields
}

// fields are the top-level keys of a document, but for models.
type fields struct {
	mode      string
	admission Admission
	first     Step
	chain     []Step
	provider  *Provider
	split     []Target
	tenants   map[string][]Target
	adapter   *Adapter
	shadow    *Shadow
}

// Problem is one thing that is wrong with a document.
type Problem struct {
	Line int
	Path string // dotted, "" is the document itself
	Text string
}

// Error is "line 7: routing_policy.max_tries: …".
func (p *Problem) Error() string {
	if p.Path == "" {
		return fmt.Sprintf("line %d: %s", p.Line, p.Text)
	}
	return fmt.Sprintf("line %d: %s: %s", p.Line, p.Path, p.Text)
}

// Parse reads a document. The error joins everything that is wrong with it, in the
// order of the document, each a [Problem]. Unknown keys are errors: a misspelt gate
// that silently does nothing is worse than none.
func Parse(name string, text []byte) (*Document, error) {
	if len(text) > MaxDocument {
		return nil, fmt.Errorf("the document has %d bytes, more than the limit of %d", len(text), MaxDocument)
	}
	root, err := load(string(text))
	if err != nil {
		return nil, err
	}
	d := &Document{Name: name, Text: string(text), has: make(map[string]bool)}
	r := &reader{}
	r.document(d, value{line: max(root.Line, 1), node: root})
	if err := r.err(); err != nil {
		return nil, err
	}
	return d, nil
}

// load gives the root of the only YAML document of a text.
func load(text string) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read YAML: %w", err)
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, &Problem{Line: 1, Text: "the document is empty"}
	case err != nil:
		return nil, syntax(err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, &Problem{Line: max(second.Line, 1), Text: "a second document begins here; a file holds one policy"}
	case !errors.Is(err, io.EOF):
		return nil, syntax(err)
	}
	if doc.Kind != yaml.DocumentNode {
		return &doc, nil
	}
	if len(doc.Content) == 0 {
		return nil, &Problem{Line: 1, Text: "the document is empty"}
	}
	return doc.Content[0], nil
}

// syntax is an error of the YAML reader, at its line.
func syntax(err error) error {
	var at *yaml.LoadError
	if errors.As(err, &at) && at.Mark.Line > 0 {
		return &Problem{Line: at.Mark.Line, Text: "not valid YAML: " + at.Message}
	}
	return fmt.Errorf("not valid YAML: %w", err)
}

// The keys of a document, and which of them are limits.
const (
	keyModels   = "models"
	keyMode     = "mode"
	keyShedIf   = "shed_if"
	keyRouting  = "routing_policy"
	keyChain    = "fallback_chain"
	keyProvider = "fallback_provider"
	keySplit    = "split"
	keyTenants  = "split_tenants"
	keyAdapter  = "adapter"
	keyShadow   = "shadow"

	keyMaxInputTokens    = "max_input_tokens"
	keyImagesMax         = "images_max"
	keyAdmitBudgetTokens = "admit_budget_tokens"
	keyMaxInflight       = "max_inflight"
	keyMaxOccupancyShare = "max_occupancy_share"
)

var documentKeys = []string{
	keyModels, keyMode, keyMaxInputTokens, keyImagesMax, keyAdmitBudgetTokens, keyMaxInflight, keyMaxOccupancyShare,
	keyShedIf, keyRouting, keyChain, keyProvider, keySplit, keyTenants, keyShadow, keyAdapter,
}

// Bounds of what a document may hold.
const (
	maxModels = 1000
	maxChain  = 32
	maxTries  = 100
	maxCount  = 1 << 53 // whole numbers that every JSON reader keeps exact
)

func (r *reader) document(d *Document, v value) {
	if v.node.Kind == yaml.ScalarNode && v.null() {
		r.problem(v, "the document is empty")
		return
	}
	f := &d.fields
	a := &f.admission
	r.each(v, documentKeys, func(key string, v value) {
		d.has[key] = true
		switch key {
		case keyModels:
			d.Models = r.models(v)
		case keyMode:
			f.mode = r.oneOf(v, "reserved", "serverless")
		case keyMaxInputTokens:
			a.MaxInputTokens = r.count(v, maxCount)
		case keyImagesMax:
			a.ImagesMax = r.count(v, maxCount)
		case keyAdmitBudgetTokens:
			a.AdmitBudgetTokens = r.count(v, maxCount)
		case keyMaxInflight:
			a.MaxInflight = r.count(v, maxCount)
		case keyMaxOccupancyShare:
			a.MaxOccupancyShare = r.share(v)
		case keyShedIf:
			a.ShedIf = r.gates(v, shedSignals, false)
		case keyRouting:
			f.first = r.step(v, keyRouting, false)
		case keyChain:
			f.chain = r.chain(v)
		case keyProvider:
			f.provider = r.provider(v)
		case keySplit:
			f.split = r.split(v)
		case keyTenants:
			f.tenants = r.tenants(v)
		case keyAdapter:
			f.adapter = r.adapter(v)
		case keyShadow:
			f.shadow = r.shadow(v)
		}
	})
	r.aliased(d, v)
	r.adapted(d, v)
}

// models reads the list of models. An empty one is an error: the document would
// silently become the global one.
func (r *reader) models(v value) []string {
	before := len(r.problems)
	list := r.texts(v, maxModels)
	if len(list) == 0 && len(r.problems) == before {
		r.problem(v, "name at least one model, or remove the key to make this the document of all models")
	}
	return list
}

func (r *reader) chain(v value) []Step {
	var steps []Step
	names := map[string]int{keyRouting: 0}
	r.items(v, maxChain, func(i int, v value) {
		s := r.step(v, fmt.Sprintf("%s[%d]", keyChain, i), true)
		if at, twice := names[s.Name]; twice && s.Name == keyRouting {
			r.problem(v.at("name"), "%q is the name of the first step", s.Name)
		} else if twice {
			r.problem(v.at("name"), "%q is the name of the step on line %d already", s.Name, at)
		}
		names[s.Name] = v.line
		steps = append(steps, s)
	})
	return steps
}

func (r *reader) provider(v value) *Provider {
	if v.null() {
		return nil
	}
	var p Provider
	seen := r.each(v, []string{"engine", "model"}, func(key string, v value) {
		if key == "engine" {
			p.Engine = r.oneOf(v, "anthropic", "openai")
		} else {
			p.Model = r.text(v)
		}
	})
	if seen != nil {
		r.need(v, seen, "engine", "model")
	}
	return &p
}
