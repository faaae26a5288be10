package simulate

import (
	"math"
	"slices"
	"time"
)

// tally is what came of the requests that are measured.
type tally struct {
	ttft    []time.Duration
	good    int
	refused int
	chars   int64 // of prompts
	cached  int64 // of them
	tenants []tenantTally
}

// tenantTally is what one tenant asked for and what it got within the limits.
type tenantTally struct{ asked, good int64 }

func (t *tally) count(r *request, now time.Duration, cfg *Config) {
	if !r.measured {
		return
	}
	ttft := r.first - r.came + wire
	t.ttft = append(t.ttft, ttft)
	t.chars += int64(r.chars)
	t.cached += int64(r.cached)
	tokens := int64(r.chars/charsPerToken + r.turn.answer)
	t.tenants[r.conversation.tenant].asked += tokens
	itl := time.Duration(0)
	if r.turn.answer > 1 {
		itl = (now - r.first) / time.Duration(r.turn.answer-1)
	}
	if ttft <= cfg.TTFTLimit && itl <= cfg.ITLLimit {
		t.good++
		t.tenants[r.conversation.tenant].good += tokens
	}
}

// refuse counts a refusal as if the first token had come with it, which it never did:
// its time is too short, and it is never good.
func (t *tally) refuse(r *request, now time.Duration) {
	if !r.measured {
		return
	}
	t.refused++
	t.ttft = append(t.ttft, now-r.came)
	t.tenants[r.conversation.tenant].asked += int64(r.chars/charsPerToken + r.turn.answer)
}

// percentile is the nearest rank.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[max(i, 0)]
}

// jain is Jain's index of fairness over the shares that the tenants got of what they
// asked for: 1 if all got the same share, 1/n if one of n got all.
func (t *tally) jain() float64 {
	sum, squares, n := 0.0, 0.0, 0.0
	for _, o := range t.tenants {
		if o.asked > 0 {
			x := float64(o.good) / float64(o.asked)
			sum += x
			squares += x * x
			n++
		}
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}

// Result is what came of a run.
type Result struct {
	Strategy      string
	Rate          float64 // requests a second that came
	Requests      int     // measured
	Refused       int     // of them
	P50, P95, P99 time.Duration
	Goodput       float64 // share of the measured
	HitRate       float64 // share of the characters of prompts that the engines had cached
	Fairness      float64
	Imbalance     float64
	Decisions     int
	Spent         time.Duration // on decisions, really
}

func (s *run) result(rate float64) Result {
	t := &s.tally
	slices.Sort(t.ttft)
	r := Result{
		Strategy: s.cfg.Strategy, Rate: rate, Requests: len(t.ttft), Refused: t.refused, P50: percentile(t.ttft, 0.5), P95: percentile(t.ttft, 0.95),
		P99: percentile(t.ttft, 0.99), Fairness: t.jain(),
	}
	if len(t.ttft) > 0 {
		r.Goodput = float64(t.good) / float64(len(t.ttft))
	}
	if t.chars > 0 {
		r.HitRate = float64(t.cached) / float64(t.chars)
	}
	sum, most := 0, 0
	for _, e := range s.engines {
		sum += e.started
		most = max(most, e.started)
	}
	if sum > 0 {
		r.Imbalance = float64(most) * float64(len(s.engines)) / float64(sum)
	}
	for _, o := range s.schedulers {
		r.Decisions += o.decisions
		r.Spent += o.spent
	}
	return r
}
