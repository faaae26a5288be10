package policy

import "math"

// defaultBound is how far above its fair share of the load an agent may be and still
// be the home of a session (consistent hashing with bounded loads, Mirrokni, Thorup
// and Zadimoghaddam, 2018).
const defaultBound = 1.25

// sessionAffinity sends the requests of a session to one agent, as long as that is
// not loaded far above the others. The home is found by weighted rendezvous hashing
// (Thaler and Ravishankar, 1998; weights: Schindelhauer and Schomaker, 2005): when an
// agent comes or goes, only sessions of that agent move. Without a session it is
// least-loaded.
func sessionAffinity(p *Pool, scores []float64) {
	if p.req.Session == 0 {
		leastLoaded(p, scores)
		return
	}
	active, capacity := 0, 0
	for _, list := range [...][]int{p.ready, p.full} {
		for _, i := range list {
			active += p.agents[i].Active
			capacity += p.agents[i].Capacity
		}
	}
	bound := p.options.Bound
	if bound == 0 {
		bound = defaultBound
	}
	for _, i := range p.ready {
		a := p.agents[i].Agent
		scores[i] = rendezvous(p.req.Session, a)
		share := bound * float64(active+1) * float64(a.Capacity) / float64(capacity)
		if float64(a.Active+1) > math.Ceil(share) {
			scores[i] -= overBound
		}
	}
}

// overBound is more than any rendezvous score, so that whoever is within its bound
// comes first.
const overBound = 1e30

// rendezvous is the score of an agent for a key: weight / -ln(u), u uniform in (0,1).
func rendezvous(key uint64, a *Agent) float64 {
	u := (float64(mix(key^a.Hash)>>11) + 0.5) / (1 << 53)
	return float64(a.Capacity) / -math.Log(u)
}

// mix spreads the bits of a number (the finaliser of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Hard reports whether a session must wait for its home rather than go elsewhere.
func (s *StrategySpec) Hard() bool { return s.Options.Sticky == StickyHard }

// home chooses the home of the session among the agents that could ever take it,
// full or not.
func (p *Pool) home() (int, Verdict) {
	best := -1
	for _, list := range [...][]int{p.ready, p.full} {
		for _, i := range list {
			p.Scores[i] = rendezvous(p.req.Session, p.agents[i].Agent)
			if best < 0 || p.Scores[i] > p.Scores[best] {
				best = i
			}
		}
	}
	switch {
	case best < 0:
		return -1, p.verdict()
	case p.Why[best] == Full:
		return -1, NoCapacity
	}
	return best, Chosen
}
