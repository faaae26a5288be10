package agent

import (
	"strconv"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// promises compares what schedulers expected of the engine's prefix cache with what
// the engine had: both as shares of the prompt tokens of the requests that ended within
// the last minute and for which a scheduler said what it expects.
type promises struct {
	mu      sync.Mutex
	last    lastMinute[promised]
	reports bool // the engine says how many tokens were cached
}

// promised counts tokens.
type promised struct{ prompt, predicted, cached float64 }

// notPredicted is the prediction for a request of which no scheduler said anything.
const notPredicted = -1

// predicted reads what a dispatch says of the engine's cache, in permille of the
// prompt.
func predicted(h bus.Header) int {
	n, err := strconv.Atoi(bus.FirstHeader(h, bus.HeaderPredicted))
	if err != nil || n < 0 || n > 1000 {
		return notPredicted
	}
	return n
}

// add takes a request that has ended well.
func (p *promises) add(permille int, u bus.Usage, now time.Time) {
	if permille == notPredicted || u.Prompt <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.last.at(now)
	e.prompt += float64(u.Prompt)
	e.predicted += float64(u.Prompt) * float64(permille) / 1000
	e.cached += float64(min(u.Cached, u.Prompt))
	// Engines leave a 0 out, so only a number above it tells that they report at all.
	p.reports = p.reports || u.Cached > 0
}

// describe adds both shares to the signals of a record. Of an engine that does not
// report cached tokens, the hit rate of its own counters is taken.
func (p *promises) describe(signals map[string]float64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum promised
	for e := range p.last.all(now) {
		sum.prompt += e.prompt
		sum.predicted += e.predicted
		sum.cached += e.cached
	}
	if sum.prompt == 0 {
		return
	}
	signals[signalPredicted] = sum.predicted / sum.prompt
	if p.reports {
		signals[signalCached] = sum.cached / sum.prompt
	} else if rate, ok := signals[signalHitRate]; ok {
		signals[signalCached] = rate
	}
}
