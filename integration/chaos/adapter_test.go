package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

const adapters = "models: [sql, fr]\nadapter: {base: m, path: \"/adapters/{model}\", replicas: %d}\n"

// loads is how often engines were asked to load an adapter.
func loads(engines []*engine) (n int64) {
	for _, e := range engines {
		n += e.sim.Record().Hits["/v1/load_lora_adapter"]
	}
	return n
}

// having is how many engines have an adapter.
func having(engines []*engine, name string) (n int) {
	for _, e := range engines {
		w := httptest.NewRecorder()
		e.sim.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
		if strings.Contains(w.Body.String(), `"id":"`+name+`"`) {
			n++
		}
	}
	return n
}

// TestAdapterOnDemand: requests for an adapter that nobody has wait until an agent has
// loaded it, one agent of all, whichever scheduler they came to; under load, as many as
// the policy allows.
func TestAdapterOnDemand(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		var engines []*engine
		for i := range 3 {
			engines = append(engines, f.addEngine(engineConfig()))
			f.addAgent(fmt.Sprint("a", i), engines[i], 2)
		}
		schedulers := []*schedulerProcess{f.addScheduler(), f.addScheduler()}
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		for _, s := range schedulers {
			usePolicy(t, s, fmt.Sprintf(adapters, 1))
		}
		ask := func(model string, n int) {
			t.Helper()
			ends := make(chan error, n)
			for range n {
				go func() {
					a, err := g.Client().Call(t.Context(), bus.Request{API: bus.Completions, Body: fmt.Appendf(nil, `{"model":%q,"prompt":"x","max_tokens":4}`, model)})
					if err == nil && a.Status != http.StatusOK {
						err = fmt.Errorf("status %d: %s", a.Status, a.Body)
					}
					ends <- err
				}()
			}
			for range n {
				if err := <-ends; err != nil {
					t.Errorf("%s: %v", model, err)
				}
			}
		}
		ask("sql", 12)
		if n := having(engines, "sql"); n != 1 || loads(engines) != 1 {
			t.Errorf("%d engines have the adapter after %d loads, want one", n, loads(engines))
		}
		ask("fr", 1)
		for _, s := range schedulers {
			usePolicy(t, s, fmt.Sprintf(adapters, 2))
		}
		ask("sql", 12)
		if n := having(engines, "sql"); n != 2 {
			t.Errorf("%d engines have the adapter under load, want the 2 that may", n)
		}
		// Without a policy that says so it is a model that does not exist.
		_, err := g.Client().Call(t.Context(), bus.Request{API: bus.Completions, Body: []byte(`{"model":"de","prompt":"x"}`)})
		if e := (*bus.Error)(nil); !errors.As(err, &e) || e.Reason != bus.ReasonModelNotFound {
			t.Errorf("an adapter that no policy names: %v", err)
		}
		f.settle()
	})
}

// TestAdapterOnDemandFails: an engine that can't load the adapter is passed over, and if
// none can, the caller is told why.
func TestAdapterOnDemandFails(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f := newFleet(t)
		defer f.close()
		engines := []*engine{f.addEngine(engineConfig()), f.addEngine(engineConfig())}
		f.addAgent("a", engines[0], 2)
		f.addAgent("b", engines[1], 2)
		s := f.addScheduler()
		g := f.addGateway()
		time.Sleep(2 * time.Second)
		usePolicy(t, s, fmt.Sprintf(adapters, 1))
		fail := sim.Fault{Kind: sim.FailStatus, Path: "/v1/load_lora_adapter", Status: 404, Body: `{"error":{"message":"No adapter found for /adapters/sql"}}`}
		if _, err := engines[0].sim.Inject(fail); err != nil {
			t.Fatal(err)
		}
		call := func(model string) error {
			_, err := g.Client().Call(t.Context(), bus.Request{API: bus.Completions, Body: fmt.Appendf(nil, `{"model":%q,"prompt":"x","max_tokens":1}`, model)})
			return err
		}
		if err := call("sql"); err != nil {
			t.Errorf("one engine of two can't load it: %v", err)
		}
		if having(engines[1:], "sql") != 1 {
			t.Error("the other engine does not have it")
		}
		if _, err := engines[1].sim.Inject(fail); err != nil {
			t.Fatal(err)
		}
		var e *bus.Error
		if err := call("fr"); !errors.As(err, &e) || e.Reason != bus.ReasonNoAgents || !strings.Contains(e.Message, "No adapter found for") {
			t.Errorf("no engine can load it: %v", err)
		}
		if c := s.Counters(); c.Loads != 1 || c.LoadsFailed != 3 {
			t.Errorf("%d loads, %d failed; want 1 and 3", c.Loads, c.LoadsFailed)
		}
		// The engines are mended; after a while they are tried again.
		for _, e := range engines {
			for _, x := range e.sim.Faults() {
				e.sim.Heal(x.ID)
			}
		}
		time.Sleep(time.Minute)
		if err := call("fr"); err != nil {
			t.Errorf("after the engines were mended: %v", err)
		}
		f.settle()
	})
}
