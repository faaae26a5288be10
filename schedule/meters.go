package schedule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbus/tokenbus/bus"
)

// Bounds of the label sets (invariant 10). Whatever comes beyond them is other.
const (
	maxModels  = 512
	maxLabels  = 256             // of decisions
	maxAgents  = 2048            // that have series of their own
	keepSeries = 5 * time.Minute // of a model that left and is not asked for
	other      = "other"
)

// meters count what has a label. The lock of the scheduler guards them; to count
// allocates nothing, unless it is the first time for a label.
type meters struct {
	models    map[string]*modelMeter
	decisions map[string]uint64 // dispatches by the label of the decision
	refusals  map[bus.Note]uint64
	retries   map[bus.Class]uint64
	prompt    uint64 // bytes of prompts whose prefix was looked at
	predicted uint64 // of these, bytes that were expected in an engine's cache
}

// modelMeter is what is counted of one model.
type modelMeter struct {
	wait     prometheus.Histogram // for a free slot, in seconds, of each request dispatched
	unserved uint64               // requests refused because no agent could serve it
	seen     time.Time            // when it was last there or asked for
}

var waitBounds = []float64{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

func newMeters() meters {
	return meters{
		models: make(map[string]*modelMeter), decisions: make(map[string]uint64),
		refusals: make(map[bus.Note]uint64), retries: make(map[bus.Class]uint64),
	}
}

// model gives what is counted of a model, which some agent or policy must have named.
func (m *meters) model(name string, now time.Time) *modelMeter {
	c := m.models[name]
	if c == nil && len(m.models) >= maxModels {
		name = other
		c = m.models[name]
	}
	if c == nil {
		c = &modelMeter{wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "unnamed", Buckets: waitBounds,
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		})}
		m.models[name] = c
	}
	c.seen = now
	return c
}

// dispatched counts a dispatch. Its ticket's first one tells how long it waited.
func (m *meters) dispatched(t *ticket, label string, now time.Time) {
	if t.attempts == 0 {
		m.model(t.model, now).wait.Observe(t.waited.Seconds())
	}
	if _, ok := m.decisions[label]; !ok && len(m.decisions) >= maxLabels {
		label = other
	}
	m.decisions[label]++
}

// expected counts a prompt of which so many bytes should be in an engine's cache.
func (m *meters) expected(prompt, cached int) {
	m.prompt += uint64(prompt)
	m.predicted += uint64(cached)
}

// purge forgets the models that are not there and were not asked for lately.
func (m *meters) purge(there func(model string) bool, now time.Time) {
	for name, c := range m.models {
		switch {
		case name == other, there(name):
			c.seen = now
		case now.Sub(c.seen) >= keepSeries:
			delete(m.models, name)
		}
	}
}
