package policy

import (
	"slices"
	"strings"
)

// Adapter says that the models of a document are LoRA adapters which agents may load
// when requests ask for them.
type Adapter struct {
	Base     string // the model that they belong to
	Path     string // where an engine finds one; {model} stands for its name
	Replicas int    // agents that may have one at a time
}

// modelMark stands for the name of an adapter in its path.
const modelMark = "{model}"

// PathOf is where an engine finds the adapter of a name.
func (a *Adapter) PathOf(model string) string { return strings.ReplaceAll(a.Path, modelMark, model) }

// maxReplicas bounds the agents that may have one adapter.
const maxReplicas = 10_000

func (r *reader) adapter(v value) *Adapter {
	if v.null() {
		return nil
	}
	a := Adapter{Replicas: 1}
	seen := r.each(v, []string{"base", "path", "replicas"}, func(key string, v value) {
		switch key {
		case "base":
			a.Base = r.text(v)
		case "path":
			a.Path = r.text(v)
		case "replicas":
			if a.Replicas = int(r.count(v, maxReplicas)); a.Replicas < 1 && len(r.problems) == 0 {
				r.problem(v, "at least 1 is needed")
			}
		}
	})
	if seen != nil {
		r.need(v, seen, "base", "path")
	}
	return &a
}

// adapted notes what has no meaning in the document of adapters.
func (r *reader) adapted(d *Document, v value) {
	a := d.fields.adapter
	switch {
	case a == nil:
	case len(d.Models) == 0:
		r.problem(v.at(keyAdapter), "models is missing: it names the adapters")
	case slices.Contains(d.Models, a.Base):
		r.problem(v.at(keyAdapter), "%q is an adapter of itself", shorten(a.Base))
	case len(d.Models) > 1 && !strings.Contains(a.Path, modelMark):
		r.problem(v.at(keyAdapter), "path is the same for %d adapters; write %s where the name of each belongs", len(d.Models), modelMark)
	}
}
