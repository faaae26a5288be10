package policy

import (
	"math"
	"slices"
)

// A strategy writes a score for each agent that passed the filters; the highest wins.
// Each is pure: the same pool gives the same scores.
type strategy func(p *Pool, scores []float64)

var strategies = map[string]strategy{
	"least-loaded":     leastLoaded,
	"round-robin":      roundRobin,
	"power-of-two":     powerOfTwo,
	"session-affinity": sessionAffinity,
	"prefix-aware":     prefixAware,
	"lowest-latency":   lowestLatency,
	"lowest-queue":     lowestQueue,
	"lowest-kv-cache":  lowestKVCache,
	"least-tokens":     leastTokens,
}

// score ranks the agents by a strategy, or by the weighted sum of several.
func (p *Pool) score(s *StrategySpec) {
	if len(s.Terms) == 1 {
		s.Terms[0].rank(p, p.Scores)
		return
	}
	for _, i := range p.ready {
		p.Scores[i] = 0
	}
	for _, t := range s.Terms {
		t.rank(p, p.term)
		p.normalise(p.term)
		for _, i := range p.ready {
			p.Scores[i] += t.Weight * p.term[i]
		}
	}
}

func (t *Term) rank(p *Pool, scores []float64) { strategies[t.Name](p, scores) }

// normalise maps scores to 0 (the worst) to 1 (the best), so that weights mean the
// same for every strategy. Scores that are all equal become 1.
func (p *Pool) normalise(scores []float64) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, i := range p.ready {
		lo, hi = min(lo, scores[i]), max(hi, scores[i])
	}
	for _, i := range p.ready {
		if hi > lo {
			scores[i] = (scores[i] - lo) / (hi - lo)
		} else {
			scores[i] = 1
		}
	}
}

// leastLoaded prefers the lowest active / capacity: 2 of 8 before 2 of 4.
func leastLoaded(p *Pool, scores []float64) {
	for _, i := range p.ready {
		scores[i] = -p.agents[i].load()
	}
}

// roundRobin prefers whoever was chosen longest ago for the model, so it stays even
// when agents come and go.
func roundRobin(p *Pool, scores []float64) {
	for _, i := range p.ready {
		scores[i] = -float64(p.agents[i].Turn)
	}
}

// powerOfTwo takes the less loaded of two at random (Mitzenmacher, 2001).
func powerOfTwo(p *Pool, scores []float64) {
	n := uint64(len(p.ready))
	first := p.req.Random % n
	second := first
	if n > 1 {
		second = (first + 1 + p.req.Random>>32%(n-1)) % n
	}
	for k, i := range p.ready {
		scores[i] = math.Inf(-1)
		if uint64(k) == first || uint64(k) == second {
			scores[i] = -p.agents[i].load()
		}
	}
}

// leastTokens prefers the fewest tokens under way (prompts and expected output) for
// its capacity.
func leastTokens(p *Pool, scores []float64) {
	for _, i := range p.ready {
		scores[i] = -float64(p.agents[i].Tokens) / float64(p.agents[i].Capacity)
	}
}

// lowestLatency prefers the shortest smoothed time to the first byte.
func lowestLatency(p *Pool, scores []float64) { p.lowest(SRTT, scores) }

// lowestQueue prefers the fewest requests that wait inside the engine.
func lowestQueue(p *Pool, scores []float64) { p.lowest(WaitingRequests, scores) }

// lowestKVCache prefers the engine with the most room in its KV cache.
func lowestKVCache(p *Pool, scores []float64) { p.lowest(KVCacheUtilization, scores) }

// lowest ranks by a signal. Who does not report it counts as the mean of those that
// do: unknown is neither best nor worst (invariant 11). Equals go by load.
func (p *Pool) lowest(s Signal, scores []float64) {
	sum, n := 0.0, 0
	most := 0.0
	for _, i := range p.ready {
		if v := p.agents[i].Signals[s]; !math.IsNaN(v) {
			sum += v
			n++
			most = max(most, math.Abs(v))
		}
	}
	mean := 0.0
	if n > 0 {
		mean = sum / float64(n)
	}
	for _, i := range p.ready {
		v := p.agents[i].Signals[s]
		if math.IsNaN(v) {
			v = mean
		}
		scores[i] = -v - p.agents[i].load()*max(most, 1)*1e-9
	}
}

// Strategies are the names of all strategies.
func Strategies() []string {
	var names []string
	for n := range strategies {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
