package policy

// Agent is what a decision may know of one agent. The scheduler keeps one for each
// agent and changes it as it hears of it; a decision only reads.
type Agent struct {
	ID       string
	Hash     uint64 // of the id, for rendezvous
	Facts    Facts
	APIs     uint32 // a bit for each API that its engine serves; 0: whatever it is asked for
	Healthy  bool   // heard of recently, ready, and its engine answers
	Open     bool   // its circuit breaker lets nothing through
	Active   int    // requests it has, and those on their way to it
	Capacity int
	Tokens   int64 // of those requests, estimated
	Signals  Signals
	// Probe lets one request pass gates on history, so that an agent that was
	// excluded for its failures can show that it has recovered.
	Probe bool
	// Trust is how much of what the prefix index promised came true lately, 0 to 1.
	Trust float64
}

// load is active / capacity. Equal ratios give equal numbers: division is rounded
// correctly.
func (a *Agent) load() float64 { return float64(a.Active) / float64(a.Capacity) }

func (a *Agent) signal(s Signal) float64 {
	if s == CapacityUtilization {
		return a.load()
	}
	return a.Signals[s]
}

// Serving is an agent as one that serves a model.
type Serving struct {
	*Agent
	Turn    uint64 // when it was last chosen for the model: the number of that choice
	Matched float64
}

// Request is what a decision may know of a request.
type Request struct {
	API     uint32          // the bit of its API; 0 passes everywhere
	Session uint64          // hash of the session key, 0 if there is none
	Failed  map[string]bool // agents that failed the request
	Random  uint64
}

// Pool is a decision: its input, what the filters said, and the scores. It is reused,
// so that a decision allocates nothing once the pool has grown.
type Pool struct {
	req     *Request
	agents  []*Serving
	options *Options

	Why    []Why     // of each agent
	Scores []float64 // of each agent that passed the filters
	Gate   []*Gate   // of each agent that a gate removed
	ready  []int     // indexes of agents that passed the filters
	full   []int     // indexes of agents that would have but for room
	term   []float64 // scratch of combinations
	counts [numWhys]int
}

// Ready gives the indexes of the agents that passed the filters, in the order of
// their ids.
func (p *Pool) Ready() []int { return p.ready }

// Count gives how many agents a filter removed.
func (p *Pool) Count(w Why) int { return p.counts[w] }

// Why is what the filters said of one agent.
type Why uint8

// What filters say, in the order of the pipeline (design.md §7).
const (
	Passed       Why = iota
	Unhealthy        // not heard of, not ready, or its engine is down
	Incapable        // its engine does not serve the API
	BreakerOpen      // it failed too often in a row
	Mismatch         // the step's match excludes it
	FailedBefore     // it failed this request
	Full             // active == capacity
	Gated            // a gate excludes it
	numWhys
)

var whyNames = [numWhys]string{"passed", "unhealthy", "capability", "breaker_open", "match", "failed_before", "full", "gate"}

// String is the name of the filter in records and errors.
func (w Why) String() string { return whyNames[w] }

// filter passes one agent through the filters of a step. breakers tells whether
// circuit breakers count.
func filter(s *Step, req *Request, a *Agent, breakers bool) (Why, *Gate) {
	switch {
	case !a.Healthy || a.Capacity <= 0:
		return Unhealthy, nil
	case a.APIs != 0 && req.API != 0 && a.APIs&req.API == 0:
		return Incapable, nil
	case a.Open && breakers:
		return BreakerOpen, nil
	case !s.Match.Holds(&a.Facts):
		return Mismatch, nil
	case req.Failed[a.ID]:
		return FailedBefore, nil
	}
	full := a.Active >= a.Capacity
	for i := range s.Gates {
		g := &s.Gates[i]
		if full && g.Signal == CapacityUtilization || a.Probe && g.History() {
			continue
		}
		if g.Violated(a.signal(g.Signal)) {
			return Gated, g
		}
	}
	if full {
		return Full, nil
	}
	return Passed, nil
}

// Allows reports whether one agent passes the filters of a step.
func Allows(s *Step, req *Request, a *Agent) bool {
	why, _ := filter(s, req, a, true)
	return why == Passed
}

// Verdict is why no agent can be chosen, or that one is.
type Verdict string

// The verdicts of a step.
const (
	Chosen     Verdict = "chosen"
	NoModel    Verdict = "no_model"    // no agent serves the model
	NoHealthy  Verdict = "no_healthy"  // some do, none can be used now
	NoAPI      Verdict = "no_api"      // of those that can be used, none serves the API
	NoMatch    Verdict = "no_match"    // those that can be used are not what the step wants
	AllFailed  Verdict = "all_failed"  // those that remain failed this request
	AllGated   Verdict = "all_gated"   // gates exclude those that remain
	NoCapacity Verdict = "no_capacity" // only room is missing: the request may wait
)

// Decide passes the agents that serve a request's model, in the order of their ids,
// through the filters of a step, and gives the index of the best of those that are
// left. Between equals, the one that comes first is taken, so the lowest id wins.
func (p *Pool) Decide(s *Step, req *Request, agents []*Serving) (int, Verdict) {
	p.reset(s, req, agents)
	if len(agents) == 0 {
		return -1, NoModel
	}
	p.filter(s, req, true)
	if len(p.ready)+len(p.full) == 0 && p.counts[BreakerOpen] > 0 {
		// When all of them are suspected, the fault is not theirs.
		p.reset(s, req, agents)
		p.filter(s, req, false)
	}
	if s.Strategy.Hard() && req.Session != 0 {
		return p.home()
	}
	if len(p.ready) == 0 {
		return -1, p.verdict()
	}
	p.score(&s.Strategy)
	best := p.ready[0]
	for _, i := range p.ready[1:] {
		if p.Scores[i] > p.Scores[best] {
			best = i
		}
	}
	return best, Chosen
}

func (p *Pool) filter(s *Step, req *Request, breakers bool) {
	for i, a := range p.agents {
		why, gate := filter(s, req, a.Agent, breakers)
		p.Why[i], p.Gate[i] = why, gate
		p.counts[why]++
		switch why {
		case Passed:
			p.ready = append(p.ready, i)
		case Full:
			p.full = append(p.full, i)
		}
	}
}

func (p *Pool) reset(s *Step, req *Request, agents []*Serving) {
	p.req, p.agents, p.options = req, agents, &s.Strategy.Options
	n := len(agents)
	if cap(p.Why) < n {
		p.Why, p.Gate, p.Scores, p.term = make([]Why, n), make([]*Gate, n), make([]float64, n), make([]float64, n)
	}
	p.Why, p.Gate, p.Scores, p.term = p.Why[:n], p.Gate[:n], p.Scores[:n], p.term[:n]
	p.ready, p.full = p.ready[:0], p.full[:0]
	p.counts = [numWhys]int{}
}

// verdict says which filter left nobody: the last one that removed somebody.
func (p *Pool) verdict() Verdict {
	switch {
	case p.counts[Full] > 0:
		return NoCapacity
	case p.counts[Gated] > 0:
		return AllGated
	case p.counts[FailedBefore] > 0:
		return AllFailed
	case p.counts[Mismatch] > 0:
		return NoMatch
	case p.counts[Incapable] > 0 && p.counts[Unhealthy] == 0: // a sick one may serve it
		return NoAPI
	}
	return NoHealthy
}
