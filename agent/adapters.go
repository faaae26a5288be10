package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// Times of adapters.
const (
	adapterTimeout = 2 * time.Minute  // for the engine to load one
	adapterRest    = time.Minute      // for requests to leave one that is to be unloaded
	adapterRetry   = 30 * time.Second // until an adapter that could not be loaded is tried again
	adapterShown   = 5 * time.Second  // until the record shows what the engine lists
)

// adapters are the LoRA adapters that are loaded and unloaded while the agent runs.
type adapters struct {
	mu       sync.Mutex      // one at a time
	withheld map[string]bool // on the way out: not served any more; a.mu guards it
}

// adapterArg is what comes with the commands load and unload.
type adapterArg struct {
	Adapter string `json:"adapter"`
	Path    string `json:"path"` // of load
	Reason  string `json:"reason"`
	By      string `json:"by"`
}

// adapterCommand is the command load or unload.
func (a *Agent) adapterCommand(do func(context.Context, adapterArg) (warning string, err error)) func([]byte) (any, error) {
	return func(data []byte) (any, error) {
		var arg adapterArg
		if err := decodeArg(data, &arg); err != nil {
			return nil, err
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(a.base, adapterTimeout+adapterRest)
		defer cancel()
		a.adapters.mu.Lock()
		defer a.adapters.mu.Unlock()
		warning, err := do(ctx, arg)
		var wrong *bus.Error
		if errors.As(err, &wrong) && wrong.Reason == bus.ReasonBadRequest {
			return nil, err
		}
		said := bus.AdapterAnswer{Agent: a.cfg.ID, Adapter: arg.Adapter, OK: err == nil, Warning: warning, MS: time.Since(began).Milliseconds()}
		if err != nil {
			said.Error = err.Error()
		}
		return said, nil
	}
}

// loadAdapter makes the engine load an adapter, and keeps that it shall have it.
func (a *Agent) loadAdapter(ctx context.Context, arg adapterArg) (warning string, err error) {
	want := bus.Adapter{Name: arg.Adapter, Path: arg.Path}
	if err := want.Validate(); err != nil {
		return "", err
	}
	o := a.slots.ordered()
	if _, listed := a.lists(want.Name); listed {
		for _, x := range o.Adapters {
			switch {
			case x.Name != want.Name:
			case x.Path == want.Path:
				return "it was loaded before", nil
			default:
				return "", fmt.Errorf("it is loaded from %s; unload it first", x.Path)
			}
		}
	}
	if o.Load(want); len(o.Adapters) > bus.MaxAdapters {
		return "", fmt.Errorf("the agent has %d adapters already, which is the most", bus.MaxAdapters)
	}
	if err := a.engineLoads(ctx, want); err != nil {
		return "", err
	}
	return a.change(func(o *bus.Order) {
		o.Load(want)
		o.Reason, o.By = arg.Reason, arg.By
	})
}

// engineLoads makes the engine load an adapter and looks whether it did: that it said
// so, or lists it, is no proof.
func (a *Agent) engineLoads(ctx context.Context, want bus.Adapter) error {
	kind, err := a.loader()
	if err != nil {
		return err
	}
	if m, ok := a.lists(want.Name); ok && m.Parent == "" {
		return fmt.Errorf("the engine serves %s as a model of its own", want.Name)
	}
	load, cancel := context.WithTimeout(ctx, adapterTimeout)
	defer cancel()
	status, body, err := a.engine.postJSON(load, kind.Adapters.Load, map[string]string{"lora_name": want.Name, "lora_path": want.Path})
	if err != nil {
		return errors.New(reason(err))
	}
	models, err := kind.Models(load, a.engine)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !slices.ContainsFunc(models, func(m bus.Model) bool { return m.ID == want.Name }) {
		return engineSays(kind.Adapters.Load, status, body)
	}
	if _, err := a.engine.generate(load, want.Name); err != nil {
		_, _, _ = a.engine.postJSON(ctx, kind.Adapters.Unload, map[string]string{"lora_name": want.Name})
		return fmt.Errorf("the engine took it and does not answer for it: %w", err)
	}
	a.log.Info("adapter loaded", "adapter", want.Name, "path", want.Path)
	return a.showAdapter(ctx, want.Name, true)
}

// unloadAdapter takes an adapter out of service, waits until no request uses it and
// makes the engine unload it. If requests do not leave it in time it stays.
func (a *Agent) unloadAdapter(ctx context.Context, arg adapterArg) (warning string, err error) {
	if err := bus.CheckModel(arg.Adapter); err != nil {
		e := bus.Errorf(bus.ReasonBadRequest, "adapter: %v", err)
		e.Param = "adapter"
		return "", e
	}
	kind, err := a.loader()
	if err != nil {
		return "", err
	}
	m, listed := a.lists(arg.Adapter)
	ordered := slices.ContainsFunc(a.slots.ordered().Adapters, func(x bus.Adapter) bool { return x.Name == arg.Adapter })
	switch {
	case listed && m.Parent == "":
		return "", fmt.Errorf("%s is no adapter", arg.Adapter)
	case !listed && !ordered:
		return "", fmt.Errorf("no adapter %s is loaded", arg.Adapter)
	}
	a.withhold(arg.Adapter, true)
	defer a.withhold(arg.Adapter, false)
	if err := a.leaveAdapter(ctx, arg.Adapter); err != nil {
		return "", err
	}
	warning, err = a.change(func(o *bus.Order) {
		o.Unload(arg.Adapter)
		o.Reason, o.By = arg.Reason, arg.By
	})
	if err != nil {
		return "", err
	}
	unload, cancel := context.WithTimeout(ctx, adapterTimeout)
	defer cancel()
	status, body, err := a.engine.postJSON(unload, kind.Adapters.Unload, map[string]string{"lora_name": arg.Adapter})
	if err != nil {
		return "", errors.New(reason(err))
	}
	models, err := kind.Models(unload, a.engine)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(models, func(m bus.Model) bool { return m.ID == arg.Adapter }) {
		return "", engineSays(kind.Adapters.Unload, status, body)
	}
	a.log.Info("adapter unloaded", "adapter", arg.Adapter)
	return warning, a.showAdapter(ctx, arg.Adapter, false)
}

// loader is the engine's kind, if it can load adapters.
func (a *Agent) loader() (*engine.Kind, error) {
	switch kind := a.engine.kind.Load(); {
	case kind == nil || a.condition() != bus.HealthOK:
		return nil, errors.New("the engine is not ready")
	case a.cfg.Model != "":
		return nil, fmt.Errorf("the agent serves only the model %s", a.cfg.Model)
	case kind.Adapters == nil:
		return nil, fmt.Errorf("an engine of the kind %s loads no adapters while it runs", kind.Name)
	default:
		return kind, nil
	}
}

// lists gives a model as the engine listed it last.
func (a *Agent) lists(name string) (bus.Model, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.IndexFunc(a.record.Models, func(m bus.Model) bool { return m.ID == name })
	if i < 0 {
		return bus.Model{}, false
	}
	return a.record.Models[i], true
}

// withhold takes an adapter out of service, or gives it back.
func (a *Agent) withhold(name string, out bool) {
	a.mu.Lock()
	if out {
		a.adapters.withheld = map[string]bool{name: true}
	} else {
		a.adapters.withheld = nil
	}
	a.mu.Unlock()
	a.listAgain()
}

// listAgain makes the models be read anew now.
func (a *Agent) listAgain() {
	a.relist.Store(true)
	signal(a.suspect)
}

// leaveAdapter waits until an adapter is not shown any more and no request uses it.
func (a *Agent) leaveAdapter(ctx context.Context, name string) error {
	if err := a.showAdapter(ctx, name, false); err != nil {
		return err
	}
	used := func() (n int) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for j := range a.jobs {
			if j.model == name {
				n++
			}
		}
		return n
	}
	if a.until(ctx, adapterRest, func() bool { return used() == 0 }) {
		return nil
	}
	return fmt.Errorf("%d requests still use it after %v; it stays", used(), adapterRest)
}

// showAdapter waits until the record shows an adapter, or does not.
func (a *Agent) showAdapter(ctx context.Context, name string, shown bool) error {
	a.listAgain()
	if a.until(ctx, adapterShown, func() bool { _, ok := a.lists(name); return ok == shown }) {
		return nil
	}
	if shown {
		return errors.New("the engine lists it, and does not any more")
	}
	return errors.New("the engine still lists it")
}

// until waits until something holds.
func (a *Agent) until(ctx context.Context, limit time.Duration, holds func() bool) bool {
	for end := time.Now().Add(limit); !holds(); {
		if time.Now().After(end) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// missingAdapters are those that the engine shall have and does not list.
func (a *Agent) missingAdapters() (missing []bus.Adapter) {
	for _, x := range a.slots.ordered().Adapters {
		if _, ok := a.lists(x.Name); !ok {
			missing = append(missing, x)
		}
	}
	return missing
}

// keepAdapters loads what the engine shall have and lost, such as by a restart.
func (a *Agent) keepAdapters(ctx context.Context) error {
	t := time.NewTicker(a.cfg.ProbeInterval)
	defer t.Stop()
	var rest time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			if now.Before(rest) || a.condition() != bus.HealthOK || len(a.missingAdapters()) == 0 {
				continue
			}
		}
		a.adapters.mu.Lock() // whoever loaded or unloaded meanwhile is done
		for _, x := range a.missingAdapters() {
			if err := a.engineLoads(ctx, x); err != nil && ctx.Err() == nil {
				a.log.Warn("an adapter can't be loaded again", "adapter", x.Name, "path", x.Path, "err", err, "next", adapterRetry)
				rest = time.Now().Add(adapterRetry)
			}
		}
		a.adapters.mu.Unlock()
	}
}

// engineSays is the error of an answer that is no success.
func engineSays(path string, status int, body []byte) error {
	var doc struct {
		Message string `json:"message"`
		Error   any    `json:"error"`
		SGLang  string `json:"error_message"`
	}
	text := string(bytes.TrimSpace(body))
	if json.Unmarshal(body, &doc) == nil {
		switch e := doc.Error.(type) {
		case map[string]any:
			text, _ = e["message"].(string)
		case string:
			text = e
		default:
			text = doc.Message + doc.SGLang
		}
	}
	const most = 300
	if text = strings.ToValidUTF8(text[:min(len(text), most)], ""); text == "" {
		text = http.StatusText(status)
	}
	return fmt.Errorf("%s answers %d: %s", path, status, text)
}
