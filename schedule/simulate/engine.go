package simulate

import (
	"math"
	"time"

	"github.com/tokenbus/tokenbus/schedule/policy"
)

// engine is an agent with its engine.
type engine struct {
	clock *clock
	model *Model
	speed float64
	cache *cache
	ended func(*request)
	// changed is called when the number of active requests is another.
	changed func()

	active    int
	tokens    int64 // of the active requests, as their callers estimated them
	held      int   // characters of the active requests, answers included
	started   int   // requests ever taken
	waiting   []*request
	prefills  *request   // whose prefill runs
	decoding  []*request // by the step of their end, a heap
	steps     float64    // of decoding, ever
	at        time.Duration
	version   uint64  // of what is planned
	srtt      float64 // ms, 0 before the first
	mostSeen  int
	seenChars int64 // of prompts prefilled
	hitChars  int64 // of them, cached
}

// take accepts a request, or refuses it because all slots are taken.
func (e *engine) take(r *request) bool {
	if e.active >= e.model.Slots {
		return false
	}
	e.active++
	e.started++
	e.mostSeen = max(e.mostSeen, e.active)
	e.tokens += r.tokens
	e.held += r.chars + r.turn.answer*charsPerToken
	r.taken = e.clock.now
	e.waiting = append(e.waiting, r)
	e.changed()
	e.prefill()
	return true
}

// prefill begins the next prefill unless one runs.
func (e *engine) prefill() {
	if e.prefills != nil || len(e.waiting) == 0 {
		return
	}
	r := e.waiting[0]
	e.waiting = e.waiting[1:]
	// The last token is computed in any case: its output is what is asked for.
	n := min(e.cache.held(r.blocks[:r.promptBlocks])*engineBlock, r.chars-charsPerToken)
	e.cache.put(r.blocks[:n/engineBlock])
	r.cached = n
	e.seenChars += int64(r.chars)
	e.hitChars += int64(n)
	e.advance()
	e.prefills = r
	e.plan()
	d := time.Duration(float64(e.model.prefill(r.chars-n)) / e.speed)
	e.clock.after(d, e.prefilled)
}

// prefilled brings the first token of the request whose prefill ran.
func (e *engine) prefilled() {
	r := e.prefills
	e.advance()
	e.prefills = nil
	e.cache.put(r.blocks[:r.promptBlocks])
	r.first = e.clock.now
	e.smooth(r.first - r.taken)
	if r.turn.answer > 1 {
		r.lastStep = e.steps + float64(r.turn.answer-1)
		e.push(r)
	} else {
		e.end(r)
	}
	e.plan()
	e.prefill()
}

// smooth is the agent's smoothing: down fast, up slowly.
func (e *engine) smooth(d time.Duration) {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case e.srtt == 0:
		e.srtt = ms
	case ms < e.srtt:
		e.srtt = 0.5*e.srtt + 0.5*ms
	default:
		e.srtt = 0.875*e.srtt + 0.125*ms
	}
}

// stepTime is the time of a step as things stand.
func (e *engine) stepTime() float64 {
	prefill := 0.0
	if e.prefills != nil {
		prefill = 1
	}
	return e.model.step(float64(len(e.decoding)), prefill) / e.speed
}

// advance counts the steps since things last changed. A step that is under way counts
// in part.
func (e *engine) advance() {
	if len(e.decoding) > 0 {
		e.steps += (e.clock.now - e.at).Seconds() / e.stepTime()
	}
	e.at = e.clock.now
}

// plan makes the next end happen, in place of what was planned before.
func (e *engine) plan() {
	e.version++
	if len(e.decoding) == 0 {
		return
	}
	v := e.version
	d := (e.decoding[0].lastStep - e.steps) * e.stepTime() * float64(time.Second)
	e.clock.after(time.Duration(math.Ceil(d)), func() {
		if e.version != v {
			return
		}
		e.advance()
		for len(e.decoding) > 0 && e.decoding[0].lastStep <= e.steps+1e-9 {
			e.end(e.pop())
		}
		e.plan()
	})
}

func (e *engine) end(r *request) {
	e.active--
	e.tokens -= r.tokens
	e.held -= r.chars + r.turn.answer*charsPerToken
	e.cache.put(r.blocks)
	e.changed()
	e.ended(r)
}

// signals are what the agent measures of its engine.
func (e *engine) signals() policy.Signals {
	s := policy.Unknown()
	s[policy.KVCacheUtilization] = min(float64(e.held)/float64(e.model.CacheChars), 1)
	s[policy.RunningRequests] = float64(e.active - len(e.waiting))
	s[policy.WaitingRequests] = float64(len(e.waiting))
	if e.srtt > 0 {
		s[policy.SRTT] = e.srtt
	}
	return s
}

func (e *engine) push(r *request) {
	e.decoding = append(e.decoding, r)
	for i := len(e.decoding) - 1; i > 0; {
		parent := (i - 1) / 2
		if !sooner(e.decoding[i], e.decoding[parent]) {
			return
		}
		e.decoding[i], e.decoding[parent] = e.decoding[parent], e.decoding[i]
		i = parent
	}
}

func (e *engine) pop() *request {
	r, last := e.decoding[0], len(e.decoding)-1
	e.decoding[0] = e.decoding[last]
	e.decoding[last] = nil
	e.decoding = e.decoding[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return r
		}
		if child+1 < last && sooner(e.decoding[child+1], e.decoding[child]) {
			child++
		}
		if !sooner(e.decoding[child], e.decoding[i]) {
			return r
		}
		e.decoding[i], e.decoding[child] = e.decoding[child], e.decoding[i]
		i = child
	}
}

func sooner(a, b *request) bool {
	return a.lastStep < b.lastStep || a.lastStep == b.lastStep && a.id < b.id
}
