package policy

import (
	"math"
	"slices"
)

// Target is one of the models behind an alias.
type Target struct {
	Model  string
	Weight float64
}

// Shadow says that copies of some requests go to another model, whose answers are
// dropped.
type Shadow struct {
	Model string
	Share float64 // of the requests, 0 to 1
}

// maxTargets bounds the models behind one alias.
const maxTargets = 64

// Pick gives the model behind an alias for a request of a tenant, "" if the policy is
// not that of an alias. key is any number that is spread over all of uint64: the same one gives the
// same model as long as weights and fleet stay. Models that are not there are left out
// while others are.
func (p *Policy) Pick(key uint64, tenant string, there func(model string) bool) string {
	if len(p.Split) == 0 {
		return ""
	}
	split := p.Split
	if own := p.Tenants[tenant]; own != nil {
		split = own
	}
	total, some := 0.0, false
	for _, t := range split {
		if t.Weight > 0 && there(t.Model) {
			total, some = total+t.Weight, true
		}
	}
	if !some {
		there = func(string) bool { return true }
		for _, t := range split {
			total += t.Weight
		}
	}
	at := float64(key) / math.MaxUint64 * total
	last := ""
	for _, t := range split {
		if t.Weight <= 0 || !there(t.Model) {
			continue
		}
		if last = t.Model; at < t.Weight {
			break
		}
		at -= t.Weight
	}
	return last
}

// split reads the models behind an alias with their weights.
func (r *reader) split(v value) []Target {
	if v.null() {
		return nil
	}
	var list []Target
	total := 0.0
	r.each(v, r.keysOf(v), func(model string, v value) {
		if model == "" {
			r.problem(v, "a model without a name")
			return
		}
		w, ok := r.number(v)
		if ok && (w < 0 || w > maxWeight) {
			r.problem(v, "a weight from 0 to %g is needed, not %s", float64(maxWeight), v.kind())
			return
		}
		total += w
		list = append(list, Target{model, w})
	})
	switch {
	case len(list) > maxTargets:
		r.problem(v, "%d models are behind the alias, more than the limit of %d", len(list), maxTargets)
	case total <= 0 && len(r.problems) == 0:
		r.problem(v, "at least one model needs a weight above 0")
	}
	return list
}

// maxTenants bounds the tenants for which an alias has models of their own.
const maxTenants = 10_000

// tenants reads the models behind an alias for single tenants.
func (r *reader) tenants(v value) map[string][]Target {
	if v.null() {
		return nil
	}
	all := make(map[string][]Target)
	r.each(v, r.keysOf(v), func(tenant string, v value) {
		if list := r.split(v); tenant == "" || list == nil {
			r.problem(v, "a tenant and its models are needed")
		} else {
			all[tenant] = list
		}
	})
	if len(all) > maxTenants {
		r.problem(v, "%d tenants have models of their own, more than the limit of %d", len(all), maxTenants)
	}
	return all
}

// targets are all models behind an alias, of all tenants.
func (f *fields) targets() []Target {
	list := slices.Clone(f.split)
	for _, own := range f.tenants {
		list = append(list, own...)
	}
	return list
}

// shadow reads which model gets copies, and of how many requests.
func (r *reader) shadow(v value) *Shadow {
	if v.null() {
		return nil
	}
	var s Shadow
	seen := r.each(v, []string{"model", "share"}, func(key string, v value) {
		if key == "model" {
			s.Model = r.text(v)
		} else {
			s.Share = r.share(v)
		}
	})
	if seen != nil {
		r.need(v, seen, "model", "share")
	}
	return &s
}

// routingKeys can't stand beside split: the policies of the models behind the alias
// hold.
var routingKeys = []string{keyRouting, keyChain, keyProvider, keyAdapter}

// aliased notes keys that have no meaning in the document of an alias.
func (r *reader) aliased(d *Document, v value) {
	if len(d.fields.split) == 0 {
		if len(d.fields.tenants) > 0 {
			r.problem(v.at(keyTenants), "split is missing: it is for the tenants that are not named")
		}
		return
	}
	if len(d.Models) == 0 {
		r.problem(v.at(keySplit), "models is missing: it names the alias that is split")
	}
	for _, key := range routingKeys {
		if d.has[key] {
			r.problem(v.at(key), "a document with split places nothing itself; the policies of the models that it names hold")
		}
	}
	for _, t := range d.fields.targets() {
		if slices.Contains(d.Models, t.Model) {
			r.problem(v.at(keySplit), "%q is the alias itself", shorten(t.Model))
		}
	}
}
