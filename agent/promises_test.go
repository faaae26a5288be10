package agent

import (
	"math"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

func TestPromises(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	check := func(name string, p *promises, s int, engine, wantPredicted, wantCached float64) {
		t.Helper()
		got := make(map[string]float64)
		if !math.IsNaN(engine) {
			got[signalHitRate] = engine
		}
		p.describe(got, at(s))
		for signal, want := range map[string]float64{signalPredicted: wantPredicted, signalCached: wantCached} {
			v, ok := got[signal]
			if ok == math.IsNaN(want) || ok && math.Abs(v-want) > 1e-9 {
				t.Errorf("%s: %s is %v %v, want %v", name, signal, v, ok, want)
			}
		}
	}
	unknown := math.NaN()
	var p promises
	check("nothing ran", &p, 0, 0.5, unknown, unknown)
	p.add(notPredicted, bus.Usage{Prompt: 100, Cached: 100}, at(0))
	p.add(500, bus.Usage{}, at(0))
	check("nothing that counts ran", &p, 0, 0.5, unknown, unknown)
	p.add(500, bus.Usage{Prompt: 100}, at(0))
	check("no engine report", &p, 0, unknown, 0.5, unknown)
	check("only the engine's counters", &p, 0, 0.25, 0.5, 0.25)
	p.add(1000, bus.Usage{Prompt: 300, Cached: 200}, at(30))
	check("weighted by tokens", &p, 31, 0.25, 350.0/400, 0.5)
	check("the first is a minute old", &p, 61, 0.25, 1, 200.0/300)
	check("all are", &p, 95, 0.25, unknown, unknown)
	p.add(0, bus.Usage{Prompt: 10}, at(200))
	check("a hit rate of zero is one", &p, 200, 0.25, 0, 0)
}

func TestPredicted(t *testing.T) {
	for text, want := range map[string]int{"": notPredicted, "0": 0, "1000": 1000, "1001": notPredicted, "-1": notPredicted, "x": notPredicted} {
		if got := predicted(bus.Header{bus.HeaderPredicted: {text}}); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
