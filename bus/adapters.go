package bus

import (
	"cmp"
	"fmt"
	"slices"
)

// Limits of the adapters of one agent.
const (
	MaxAdapters    = 64
	maxAdapterPath = 4096
)

// Adapter is a LoRA adapter, and where its engine finds it.
type Adapter struct {
	Name string `json:"name"`
	Path string `json:"path"` // a directory, or an id at a hub, as the engine understands it
}

// Validate reports what is wrong with an adapter.
func (a Adapter) Validate() error {
	bad := func(param, format string, args ...any) error {
		e := Errorf(ReasonBadRequest, "%s: %s", param, fmt.Sprintf(format, args...))
		e.Param = param
		return e
	}
	switch err := CheckModel(a.Name); {
	case err != nil:
		return bad("adapter", "%v", err)
	case a.Path == "":
		return bad("path", "is missing; say where the engine finds the adapter")
	case len(a.Path) > maxAdapterPath:
		return bad("path", "it is longer than %d bytes", maxAdapterPath)
	}
	return nil
}

// AdapterAnswer is what came of a command to load or to unload an adapter at one agent.
type AdapterAnswer struct {
	Agent   string `json:"agent"`
	Adapter string `json:"adapter"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"`
	Warning string `json:"warning,omitempty"` // it is done, but something is not as it should be
	MS      int64  `json:"ms"`
}

// Load adds an adapter to those that the engine shall have.
func (o *Order) Load(a Adapter) {
	o.Unload(a.Name)
	o.Adapters = append(o.Adapters, a)
	slices.SortFunc(o.Adapters, func(a, b Adapter) int { return cmp.Compare(a.Name, b.Name) })
}

// Unload takes an adapter from those that the engine shall have. Orders that were copied
// before do not change.
func (o *Order) Unload(name string) {
	var rest []Adapter
	for _, a := range o.Adapters {
		if a.Name != name {
			rest = append(rest, a)
		}
	}
	o.Adapters = rest
}
