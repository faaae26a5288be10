package policy

// defaultLoadWeight is β of prefixAware. docs/benchmarks.md has the runs that chose it.
const defaultLoadWeight = 0.5

// prefixAware weighs the part of the prompt that an agent has in its cache against
// how much busier it is than the others:
//
//	score = match − β · (load − mean) / max(1, mean)
//
// match is the matched part of the prompt, 0 to 1, times how much such promises were
// worth lately. load is the number of active requests, scaled to the mean capacity so
// that agents of different size compare; mean is its mean over all usable agents. A
// prompt that nobody knows goes by load alone, a small match is not worth a busy
// agent, and one busy agent does not turn the affinity of the others off. Equals go
// in turn, which spreads new prompts over an idle fleet.
func prefixAware(p *Pool, scores []float64) {
	beta := p.options.LoadWeight
	if beta == 0 {
		beta = defaultLoadWeight
	}
	capacity, n := 0, 0
	ratio := 0.0
	turn := uint64(1)
	for _, list := range [...][]int{p.ready, p.full} {
		for _, i := range list {
			capacity += p.agents[i].Capacity
			ratio += p.agents[i].load()
			turn = max(turn, p.agents[i].Turn)
			n++
		}
	}
	scale := float64(capacity) / float64(n)
	mean := ratio / float64(n) * scale
	for _, i := range p.ready {
		a := p.agents[i]
		scores[i] = a.Matched*a.Trust - beta*(a.load()*scale-mean)/max(1, mean) - float64(a.Turn)/float64(turn)*1e-6
	}
}
