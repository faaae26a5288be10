package sim

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// phase is where a sequence is in the engine.
type phase int

const (
	waiting phase = iota
	prefilling
	decoding
	ended
)

func (p phase) String() string { return [...]string{"waiting", "prefill", "decode", "ended"}[p] }

// What a sequence's handler reads without the lock.
const (
	live     int32 = iota
	complete       // produced is final
	held           // a fault keeps it from going on; it holds its slot
)

// sequence is one request in the engine. Requests with several choices or
// prompts are one sequence that makes several tokens a step: real vLLM gives
// each its own slot.
type sequence struct {
	// Set before submit.
	prompt  int      // tokens
	chars   int      // characters
	blocks  []uint64 // keys of the full prompt blocks
	want    int      // decode steps
	width   int      // tokens a step
	each    bool     // wake the handler for each step, not only at the end
	stopAt  int      // steps after which a fault holds it; negative is never
	reason  string   // finish reason
	slow    float64  // factor on the prefill
	stride  int      // gets a token every so many steps
	delay   time.Duration
	arrived time.Time
	wake    chan struct{} // of one

	produced atomic.Int64 // steps
	state    atomic.Int32

	// Guarded by Server.mu.
	phase      phase
	cached     int // characters
	kv         int // tokens held
	skip       int // steps until its next token
	started    time.Time
	due        time.Time // end of prefill
	first      time.Time
	last       time.Time
	index      int // in engine.prefill or engine.decode, -1 in neither
	prev, next *sequence
}

func (s *sequence) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// engine is the state of the continuous batch, guarded by Server.mu.
type engine struct {
	cfg    *Config
	cache  *prefixCache // nil when off
	meters *meters

	queue   sequence // ring of waiting sequences, queue.next is the oldest
	waiting int
	running int // sequences that hold a slot
	most    int // highest value of running ever
	started int64
	prefill prefillHeap
	decode  []*sequence
	asleep  int       // level of the sleep, 0 when awake
	kv      int       // tokens held by running sequences
	step    time.Time // the next decode step, zero while the clock stands still

	// wake tells the step loop that something became due earlier.
	wake chan struct{}
}

func newEngine(cfg *Config, m *meters) *engine {
	e := &engine{cfg: cfg, meters: m, wake: make(chan struct{}, 1)}
	e.queue.prev, e.queue.next = &e.queue, &e.queue
	if cfg.PrefixCache {
		e.cache = newPrefixCache(cfg.PrefixCacheChars / cfg.BlockChars)
	}
	return e
}

// submit queues s and admits what fits.
func (e *engine) submit(s *sequence, now time.Time) {
	s.arrived, s.index = now, -1
	s.prev, s.next = e.queue.prev, &e.queue
	s.prev.next, s.next.prev = s, s
	e.waiting++
	e.admit(now)
}

// admit gives free slots to the oldest waiting sequences.
func (e *engine) admit(now time.Time) {
	for e.running < e.cfg.MaxNumSeqs && e.waiting > 0 && e.asleep == 0 {
		s := e.queue.next
		e.unqueue(s)
		e.running++
		e.started++
		e.most = max(e.most, e.running)
		s.started, s.phase = now, prefilling
		e.holdPrompt(s)
		uncached := time.Duration(s.chars - s.cached)
		took := e.cfg.PrefillBase + e.cfg.PrefillPer1KChars*uncached/1000
		if s.slow > 1 {
			took = time.Duration(float64(took) * s.slow)
		}
		if took += s.delay; took <= 0 {
			e.prefilled(s, now)
			continue
		}
		s.due = now.Add(took)
		heap.Push(&e.prefill, s)
		if e.prefill[0] == s {
			e.poke()
		}
	}
}

func (e *engine) unqueue(s *sequence) {
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
	e.waiting--
}

// holdPrompt looks the prompt up in the prefix cache. As in vLLM at least one
// token is always computed, and blocks count as held from here on.
func (e *engine) holdPrompt(s *sequence) {
	e.meters.promptTokens += int64(s.prompt)
	if e.cache != nil && s.chars > 0 {
		s.cached = e.cache.use(s.blocks, (s.chars-1)/e.cfg.BlockChars) * e.cfg.BlockChars
		e.meters.cacheQueries += int64(s.prompt)
		e.meters.cacheHits += int64(s.cached / CharsPerToken)
	}
	s.blocks = nil
	s.kv = s.prompt
	e.kv += s.kv
}

// prefilled moves s on to decoding, or ends it when nothing is to be decoded.
func (e *engine) prefilled(s *sequence, now time.Time) {
	s.phase = decoding
	switch {
	case s.want == 0:
		e.complete(s, now)
	case s.stopAt == 0:
		s.state.Store(held)
		s.notify()
	case e.cfg.TokenInterval == 0:
		e.allAtOnce(s, now)
	default:
		s.index = len(e.decode)
		e.decode = append(e.decode, s)
		e.poke()
	}
}

// allAtOnce produces the whole reply. The slot stays taken until the handler
// has written it and leaves.
func (e *engine) allAtOnce(s *sequence, now time.Time) {
	steps, state := s.want, complete
	if s.stopAt > 0 && s.stopAt < s.want {
		steps, state = s.stopAt, held
	}
	s.first, s.last = now, now
	e.grow(s, steps)
	e.meters.ttft.observe(now.Sub(s.arrived).Seconds(), 1)
	e.meters.itl.observe(0, steps-1)
	s.produced.Store(int64(steps))
	s.state.Store(state)
	s.notify()
}

// grow books the tokens of so many steps.
func (e *engine) grow(s *sequence, steps int) {
	n := steps * s.width
	s.kv += n
	e.kv += n
	e.meters.generatedTokens += int64(n)
}

// complete ends s normally and gives its slot away.
func (e *engine) complete(s *sequence, now time.Time) {
	e.vacate(s)
	e.meters.finished(s, now, s.reason)
	s.state.Store(complete)
	s.notify()
	e.admit(now)
}

// leave is called once by the handler of s when it is through, whether it saw
// the end or gives up. It returns the phase s was in: ended when the engine
// had completed it by itself.
func (e *engine) leave(s *sequence, now time.Time, clean bool) phase {
	was := s.phase
	if was == waiting {
		e.unqueue(s)
		s.phase = ended
		e.meters.finished(s, now, "abort")
		return was
	}
	if was == ended {
		return was
	}
	e.vacate(s)
	if clean && s.state.Load() == complete {
		was = ended
		e.meters.finished(s, now, s.reason)
	} else {
		e.meters.finished(s, now, "abort")
	}
	e.admit(now)
	return was
}

// vacate takes s out of the batch.
func (e *engine) vacate(s *sequence) {
	switch {
	case s.index < 0:
	case s.phase == prefilling:
		heap.Remove(&e.prefill, s.index)
	default:
		e.undecode(s)
	}
	s.phase = ended
	e.running--
	e.kv -= s.kv
}

// undecode takes s out of the decode steps.
func (e *engine) undecode(s *sequence) {
	last := len(e.decode) - 1
	e.decode[s.index] = e.decode[last]
	e.decode[s.index].index = s.index
	e.decode[last] = nil
	e.decode = e.decode[:last]
	s.index = -1
	if last == 0 {
		e.step = time.Time{} // the clock stands still until the next joins
	}
}

// poke wakes the step loop.
func (e *engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}
