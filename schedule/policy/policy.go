// Package policy decides which agent gets a request. It is pure: snapshots in, a
// decision out; no clock, no bus, no goroutine.
package policy

// Agent is what a decision may know of one agent.
type Agent struct {
	ID       string
	Fresh    bool // heard recently
	Healthy  bool // ready, and its engine answers
	Failed   bool // failed this request before
	Active   int  // requests it has, and those on their way to it
	Capacity int
}

// Verdict is why no agent can be chosen, or that one is.
type Verdict string

// The verdicts, in the order of the pipeline (design.md §7): a pool that is empty
// at one filter is never looked at by the next.
const (
	Chosen     Verdict = "chosen"
	NoModel    Verdict = "no_model"    // no agent serves the model
	NoHealthy  Verdict = "no_healthy"  // some do, none can be used now
	AllFailed  Verdict = "all_failed"  // those that can be used failed this request
	NoCapacity Verdict = "no_capacity" // only room is missing: the request may wait
)

// Pick chooses one of the agents that serve a request's model, given in the order
// of their ids, and gives its index. The strategy ranks what the filters leave.
func Pick(agents []Agent, strategy Strategy) (int, Verdict) {
	if len(agents) == 0 {
		return -1, NoModel
	}
	best := -1
	verdict := NoHealthy
	for i := range agents {
		a := &agents[i]
		switch {
		case !a.Fresh || !a.Healthy || a.Capacity <= 0:
			continue
		case a.Failed:
			if verdict == NoHealthy {
				verdict = AllFailed
			}
			continue
		case a.Active >= a.Capacity:
			verdict = NoCapacity
			continue
		}
		if best < 0 || strategy(a, &agents[best]) {
			best = i
		}
	}
	if best >= 0 {
		return best, Chosen
	}
	return -1, verdict
}

// Strategy reports whether a is strictly better than b. Between equals, Pick keeps
// the one that comes first, so the lowest id wins.
type Strategy func(a, b *Agent) bool

// LeastLoaded prefers the lowest active / capacity: 2 of 8 before 2 of 4. The
// ratios are compared exactly, by cross-multiplication.
func LeastLoaded(a, b *Agent) bool { return a.Active*b.Capacity < b.Active*a.Capacity }
