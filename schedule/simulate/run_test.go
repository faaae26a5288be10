package simulate

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/schedule/policy"
)

// small is a fleet that a test can afford.
func small() Config {
	return Config{
		Agents: 4, Schedulers: 1, Seed: 1, Requests: 1500, TTFTLimit: 2 * time.Second, ITLLimit: 40 * time.Millisecond, Model: DefaultModel(),
	}
}

func tables(t *testing.T, s Sweep) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.WriteHead(&b); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background(), func(t Table) error { return t.Write(&b) }); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDeterminism: the same seed gives the same tables, another one does not.
func TestDeterminism(t *testing.T) {
	s := Sweep{Config: small(), Strategies: policy.Strategies(), Workloads: Workloads(), Loads: []float64{0.9}}
	s.Schedulers = 3
	first := tables(t, s)
	if second := tables(t, s); first != second {
		t.Errorf("two runs with one seed differ:\n%s\n%s", first, second)
	}
	s.Seed = 2
	if other := tables(t, s); first == other {
		t.Error("two seeds give the same tables")
	}
}

// TestConservation: every request ends exactly once, no engine ever has more than it
// has slots for, and nothing is left of anything in the end, be the load below or far
// above what the fleet can take.
func TestConservation(t *testing.T) {
	for _, name := range Workloads() {
		for _, strategy := range policy.Strategies() {
			for _, load := range []float64{0.8, 4} {
				cfg := small()
				cfg.Workload, cfg.Strategy, cfg.Schedulers = name, strategy, 3
				cfg.Model.Slots = 6
				w, err := workload(name)
				if err != nil {
					t.Fatal(err)
				}
				traffic := generate(w, cfg.Seed, cfg.Requests)
				rate := load * 4 * cfg.Model.Capacity(traffic.chars, traffic.answer)
				conserved(t, simulate(cfg, traffic, rate))
			}
		}
	}
}

func conserved(t *testing.T, s *run) {
	t.Helper()
	name := s.cfg.Workload + ", " + s.cfg.Strategy
	// That none ends twice is checked where they end.
	if s.begun != s.cfg.Requests || s.ended != s.cfg.Requests {
		t.Errorf("%s: %d requests came and %d ended, want %d", name, s.begun, s.ended, s.cfg.Requests)
	}
	measured := 0
	for _, c := range s.traffic.conversations[s.from:s.to] {
		measured += len(c.turns)
	}
	if len(s.tally.ttft) != measured || s.tally.good+s.tally.refused > measured {
		t.Errorf("%s: %d measured, %d good, %d refused, want %d measured", name, len(s.tally.ttft), s.tally.good, s.tally.refused, measured)
	}
	started := 0
	for i, e := range s.engines {
		started += e.started
		if e.active != 0 || e.tokens != 0 || e.held != 0 || len(e.waiting) != 0 || len(e.decoding) != 0 || e.prefills != nil {
			t.Errorf("%s: engine %d still has %d requests", name, i, e.active)
		}
		if e.mostSeen > s.cfg.Model.Slots {
			t.Errorf("%s: engine %d had %d requests in %d slots", name, i, e.mostSeen, s.cfg.Model.Slots)
		}
		if len(e.cache.places) > e.cache.most {
			t.Errorf("%s: engine %d holds %d blocks in a cache of %d", name, i, len(e.cache.places), e.cache.most)
		}
	}
	if started > s.cfg.Requests {
		t.Errorf("%s: %d requests started, %d came", name, started, s.cfg.Requests)
	}
	for _, o := range s.schedulers {
		if o.waiting.Len() != 0 {
			t.Errorf("%s: %d requests wait", name, o.waiting.Len())
		}
		for _, v := range o.views {
			if v.pending != 0 || v.coming != 0 || v.active != 0 || v.tokens != 0 {
				t.Errorf("%s: a scheduler believes that %s has %d requests and %d tokens, and %d are coming", name, v.agent.ID, v.active, v.tokens, v.pending)
			}
		}
	}
}

// TestOverload: beyond its capacity a fleet refuses, and says so.
func TestOverload(t *testing.T) {
	cfg := small()
	cfg.Workload, cfg.Strategy, cfg.Requests = "no-prefix", "least-loaded", 12_000
	w, err := workload(cfg.Workload)
	if err != nil {
		t.Fatal(err)
	}
	traffic := generate(w, cfg.Seed, cfg.Requests)
	s := simulate(cfg, traffic, 4*capacity(cfg, traffic))
	conserved(t, s)
	if r := s.result(0); r.Refused == 0 || r.Goodput > 0.5 {
		t.Errorf("%d refused, goodput %.2f at four times the capacity", r.Refused, r.Goodput)
	}
}

// TestValidate: every mistake names its flag.
func TestValidate(t *testing.T) {
	s := Sweep{Config: small(), Strategies: []string{"least-loaded"}, Workloads: []string{"bursts"}, Loads: []float64{0.5}}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Sweep){
		"agents": func(s *Sweep) { s.Agents = 0 }, "strategies": func(s *Sweep) { s.Strategies = []string{"best"} },
		"workloads": func(s *Sweep) { s.Workloads = []string{"bursts", "x"} }, "loads": func(s *Sweep) { s.Loads = []float64{0.5, 0} },
		"ttft-limit": func(s *Sweep) { s.TTFTLimit = 0 }, "requests": func(s *Sweep) { s.Requests = -1 },
		"a sweep": func(s *Sweep) { s.Loads = nil }, "engine": func(s *Sweep) { s.Model.Slots = 0 },
	} {
		bad := s
		change(&bad)
		if err := bad.Validate(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
