package gateway

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbus/tokenbus/bus"
)

// Bounds of the label sets (invariant 10). A model is named only while some agent
// has it, or a request for it was answered; everything else is other.
const (
	maxSeries  = 512             // pairs of model and API
	maxCodes   = 32              // status codes of one pair
	keepSeries = 5 * time.Minute // of a model that left and is not asked for
	other      = "other"
)

// phase is how far a request had come when its client left.
type phase int

const (
	phaseQueued    phase = iota // no agent has said that it has it
	phaseFirstByte              // an agent had it, and no byte of its answer was here
	phaseStreaming              // some of its answer was written
	numPhases
)

var phaseNames = [numPhases]string{"queued", "before_first_byte", "streaming"}

// meters measure what clients saw. To observe a request allocates nothing, unless it
// is the first one of its model and API.
type meters struct {
	serves func(model string) bool

	series   atomic.Pointer[map[pair]*series] // replaced, never changed
	overhead prometheus.Histogram
	slow     atomic.Uint64 // clients that were cut because they did not read

	mu sync.Mutex // of who replaces series
}

// pair is what series are kept for.
type pair struct {
	model string
	api   bus.API
}

// series is what is measured of one model and API. The histograms have no labels:
// each is shown under two names, see [Gateway.Metrics].
type series struct {
	duration, firstToken, perToken prometheus.Histogram // in seconds
	input, output                  prometheus.Histogram // tokens of a request

	mu     sync.Mutex
	codes  map[int]uint64 // requests by status; 0 is any that is not named
	tokens bus.Usage      // in all

	// Owned by the goroutine that purges.
	asked uint64    // requests at the last look
	since time.Time // when it was first seen without an agent and without requests
}

// The bounds of the classic buckets are those that OpenTelemetry's conventions for
// generative AI advise, in seconds and in tokens.
var (
	durationBounds   = []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	firstTokenBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	perTokenBounds   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5}
	tokenBounds      = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
	overheadBounds   = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1}
)

// histogram has classic buckets and native ones, which grow by a tenth.
func histogram(bounds []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "unnamed", Buckets: bounds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	})
}

func newMeters(serves func(string) bool) *meters {
	m := &meters{serves: serves, overhead: histogram(overheadBounds)}
	m.series.Store(&map[pair]*series{})
	return m
}

// of gives the series of a model and an API. answered tells that an agent answered a
// request for the model, so that its name is one.
func (m *meters) of(model string, api bus.API, answered bool) *series {
	p := pair{model, api}
	if s := (*m.series.Load())[p]; s != nil {
		return s
	}
	if !answered && !m.serves(model) || !utf8.ValidString(model) {
		p.model = other
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.series.Load()
	if len(all) >= maxSeries {
		p.model = other
	}
	if s := all[p]; s != nil {
		return s
	}
	s := &series{
		duration: histogram(durationBounds), firstToken: histogram(firstTokenBounds), perToken: histogram(perTokenBounds),
		input: histogram(tokenBounds), output: histogram(tokenBounds), codes: make(map[int]uint64),
	}
	grown := maps.Clone(all)
	grown[p] = s
	m.series.Store(&grown)
	return s
}

// purge forgets the models that left, and gives what remains.
func (m *meters) purge(now time.Time) map[pair]*series {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.series.Load()
	left := make(map[pair]*series, len(all))
	for p, s := range all {
		if asked := s.requests(); asked != s.asked || p.model == other || m.serves(p.model) {
			s.asked, s.since = asked, time.Time{}
		} else if s.since.IsZero() {
			s.since = now
		}
		if s.since.IsZero() || now.Sub(s.since) < keepSeries {
			left[p] = s
		}
	}
	if len(left) < len(all) {
		m.series.Store(&left)
	}
	return left
}

func (s *series) requests() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n uint64
	for _, c := range s.codes {
		n += c
	}
	return n
}

// add counts a request.
func (s *series) add(code int, u bus.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.codes[code]; !ok && (code < 100 || code > 599 || len(s.codes) >= maxCodes) {
		code = 0
	}
	s.codes[code]++
	s.tokens.Prompt += max(u.Prompt, 0)
	s.tokens.Completion += max(u.Completion, 0)
	s.tokens.Cached += max(u.Cached, 0)
}
