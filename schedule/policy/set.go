package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// GlobalName is the name of the document of all models that no other one names.
const GlobalName = "_default"

// NewSet makes the policies of all models from documents. The order of the documents
// does not matter. The error joins everything by which they contradict each other.
//
// They are layered by key: what the document of a model does not say at its top level
// is as in the global document. Without a routing_policy the first step is
// least-loaded, without gates.
func NewSet(version uint64, docs []*Document) (*Set, error) {
	global, err := check(docs)
	if err != nil {
		return nil, err
	}
	s := Default()
	s.version, s.models, s.docs = version, make(map[string]*Policy), slices.Clone(docs)
	s.aliases = make(map[string][]string)
	builtin := s.global
	if global != nil {
		s.global = layer(global.Name, version, builtin, global)
	} else {
		s.global.Version = version
	}
	for _, d := range docs {
		if d == global {
			continue
		}
		p := layer(d.Name, version, builtin, d, global)
		var behind []string
		for _, t := range p.Split {
			behind = append(behind, t.Model)
		}
		for _, m := range d.Models {
			s.models[m] = p
			if behind != nil {
				s.aliases[m] = behind
			}
		}
	}
	return s, nil
}

// check finds the global document, nil if there is none, and contradictions.
func check(docs []*Document) (*Document, error) {
	var problems []error
	var global *Document
	names, owners := make(map[string]bool), make(map[string]string)
	for _, d := range slices.SortedFunc(slices.Values(docs), func(a, b *Document) int { return strings.Compare(a.Name, b.Name) }) {
		switch {
		case names[d.Name]:
			problems = append(problems, fmt.Errorf("there are two documents with the name %s", d.Name))
			continue
		case d.Name == GlobalName && len(d.Models) > 0:
			problems = append(problems, fmt.Errorf("%s names models; it is the document of all others, so remove the key, or give it another name", d.Name))
		case len(d.Models) > 0:
		case d.Name == GlobalName || len(docs) == 1:
			global = d
		default:
			problems = append(problems, fmt.Errorf("%s names no models; add the key, or call it %s to make it the document of all others", d.Name, GlobalName))
		}
		names[d.Name] = true
		for _, m := range d.Models {
			if owner, taken := owners[m]; taken {
				problems = append(problems, fmt.Errorf("the model %q is in two documents, %s and %s", m, owner, d.Name))
				continue
			}
			owners[m] = d.Name
		}
	}
	aliases := make(map[string]bool)
	for _, d := range docs {
		for _, m := range d.Models {
			aliases[m] = aliases[m] || len(d.fields.split) > 0
		}
	}
	for _, d := range docs {
		for _, t := range d.fields.targets() {
			if aliases[t.Model] {
				problems = append(problems, fmt.Errorf("%s names %q behind its alias, which is an alias itself", d.Name, t.Model))
			}
		}
		if a := d.fields.adapter; a != nil && aliases[a.Base] {
			problems = append(problems, fmt.Errorf("the adapters of %s belong to %q, which is an alias; name the model", d.Name, a.Base))
		}
		if sh := d.fields.shadow; sh != nil && aliases[sh.Model] {
			problems = append(problems, fmt.Errorf("the shadow of %s is %q, which is an alias; name the model", d.Name, sh.Model))
		}
	}
	return global, errors.Join(problems...)
}

// layer makes a policy. Each key is taken from the first of the documents that has it,
// or else from the policy that is built in.
func layer(name string, version uint64, builtin *Policy, docs ...*Document) *Policy {
	from := make(map[string]*fields)
	for _, d := range slices.Backward(docs) {
		if d == nil {
			continue
		}
		for key := range d.has {
			from[key] = &d.fields
		}
	}
	get := func(key string) *fields {
		if f := from[key]; f != nil {
			return f
		}
		return &fields{first: builtin.Steps[0]}
	}
	p := &Policy{Name: name, Version: version, Mode: get(keyMode).mode, Provider: get(keyProvider).provider}
	p.Admission = Admission{
		MaxInputTokens:    get(keyMaxInputTokens).admission.MaxInputTokens,
		ImagesMax:         get(keyImagesMax).admission.ImagesMax,
		AdmitBudgetTokens: get(keyAdmitBudgetTokens).admission.AdmitBudgetTokens,
		MaxInflight:       get(keyMaxInflight).admission.MaxInflight,
		MaxOccupancyShare: get(keyMaxOccupancyShare).admission.MaxOccupancyShare,
		ShedIf:            get(keyShedIf).admission.ShedIf,
	}
	p.Split, p.Tenants, p.Shadow = get(keySplit).split, get(keyTenants).tenants, get(keyShadow).shadow
	p.Adapter = get(keyAdapter).adapter
	p.Steps = append([]Step{get(keyRouting).first}, get(keyChain).chain...)
	p.seal()
	return p
}
