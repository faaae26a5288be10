package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// Decision is the record of how one request was placed: what tokenbus explain shows.
type Decision struct {
	Request   string     `json:"request"`
	Scheduler string     `json:"scheduler"`
	Model     string     `json:"model"`
	Alias     string     `json:"alias,omitempty"` // under which the model was asked for
	API       string     `json:"api"`
	Policy    string     `json:"policy"`
	Version   uint64     `json:"policy_version"`
	Came      time.Time  `json:"came"`
	Session   bool       `json:"session"`       // it has a session key
	Blocks    int        `json:"prefix_blocks"` // of its prompt, 0 if the policy does not look
	QueuedMS  int64      `json:"queued_ms"`
	Walks     []Walk     `json:"walks"`
	Omitted   int        `json:"omitted_walks,omitempty"` // between the first ones and the last
	Outcome   string     `json:"outcome,omitempty"`       // "" while it is under way
	Ended     *time.Time `json:"ended,omitempty"`

	t *ticket
}

// Walk is one look at one step of the policy.
type Walk struct {
	AtMS     int64          `json:"at_ms"` // since the request came
	Step     string         `json:"step"`
	Strategy string         `json:"strategy"`
	Verdict  policy.Verdict `json:"verdict"`
	Agent    string         `json:"agent,omitempty"`  // that was chosen
	Result   string         `json:"result,omitempty"` // of the attempt there
	Removed  map[string]int `json:"removed,omitempty"`
	// Candidates are those with the best scores, then those that filters removed.
	Candidates []Candidate `json:"candidates,omitempty"`
	Omitted    int         `json:"omitted_candidates,omitempty"`
}

// Candidate is one agent as a decision saw it.
type Candidate struct {
	Agent    string  `json:"agent"`
	Filter   string  `json:"filter"`         // "passed", or what removed it
	Gate     string  `json:"gate,omitempty"` // that removed it
	Active   int     `json:"active"`
	Capacity int     `json:"capacity"`
	Matched  float64 `json:"matched"` // part of the prompt in its cache
	Score    float64 `json:"score"`   // 0 if it did not pass
}

// Bounds of a record. A request that waits is looked at many times: the first looks
// and the last one are kept.
const (
	maxCandidates = 12
	maxWalks      = 16
)

// decisions is a ring of records.
type decisions struct {
	size int
	ring []*Decision
	next int
	byID map[string]*Decision
}

// open begins the record of a ticket, nil if none are kept.
func (d *decisions) open(t *ticket, scheduler string) *Decision {
	if d.size == 0 {
		return nil
	}
	r := &Decision{
		Request: bus.FirstHeader(t.m.Header, bus.HeaderID), Scheduler: scheduler, Model: t.model, Alias: t.alias, API: string(t.api), Policy: t.policy.Name,
		Version: t.policy.Version, Came: t.came, Session: t.session != 0, t: t,
	}
	if d.byID == nil {
		d.byID = make(map[string]*Decision, d.size)
	}
	if len(d.ring) < d.size {
		d.ring = append(d.ring, r)
	} else {
		if old := d.ring[d.next]; d.byID[old.Request] == old {
			delete(d.byID, old.Request)
		}
		d.ring[d.next] = r
		d.next = (d.next + 1) % d.size
	}
	d.byID[r.Request] = r
	return r
}

// explain adds what the pool has just decided at a step to the record of a ticket.
func (s *Scheduler) explain(t *ticket, step int, verdict policy.Verdict, chosen int, agents []*policy.Serving, now time.Time) {
	if t.record != nil {
		st := &t.policy.Steps[step]
		s.explainStep(t, st.Name, st.Strategy.String(), verdict, chosen, agents, now)
	}
}

func (s *Scheduler) explainStep(t *ticket, step, strategy string, verdict policy.Verdict, chosen int, agents []*policy.Serving, now time.Time) {
	r := t.record
	if r == nil {
		return
	}
	r.Blocks = len(t.prefix)
	w := Walk{AtMS: now.Sub(t.came).Milliseconds(), Step: step, Strategy: strategy, Verdict: verdict}
	if chosen >= 0 {
		w.Agent = agents[chosen].ID
	}
	if n := len(r.Walks); n > 0 && r.Walks[n-1].Verdict == policy.NoCapacity && r.Walks[n-1].Step == w.Step && verdict == policy.NoCapacity {
		r.Omitted++ // it still waits for the same
		return
	}
	for why := policy.Unhealthy; why <= policy.Gated; why++ {
		if n := s.pool.Count(why); n > 0 {
			if w.Removed == nil {
				w.Removed = make(map[string]int)
			}
			w.Removed[why.String()] = n
		}
	}
	s.candidates(&w, chosen, agents)
	if len(r.Walks) == maxWalks {
		r.Walks = r.Walks[:maxWalks-1]
		r.Omitted++
	}
	r.Walks = append(r.Walks, w)
}

// candidates adds the chosen agent, the first of those that passed and the first of
// those that did not.
func (s *Scheduler) candidates(w *Walk, chosen int, agents []*policy.Serving) {
	w.Candidates = make([]Candidate, 0, min(len(agents), maxCandidates))
	add := func(i int) {
		if len(w.Candidates) == maxCandidates {
			w.Omitted++
			return
		}
		a := agents[i]
		c := Candidate{Agent: a.ID, Filter: s.pool.Why[i].String(), Active: a.Active, Capacity: a.Capacity, Matched: a.Matched}
		if s.pool.Why[i] == policy.Passed {
			c.Score = finite(s.pool.Scores[i])
		}
		if g := s.pool.Gate[i]; g != nil {
			c.Gate = g.String()
		}
		w.Candidates = append(w.Candidates, c)
	}
	if chosen >= 0 {
		add(chosen)
	}
	for i := range agents {
		if i != chosen && s.pool.Why[i] == policy.Passed {
			add(i)
		}
	}
	for i := range agents {
		if s.pool.Why[i] != policy.Passed {
			add(i)
		}
	}
}

// finite makes a score fit for JSON, which has no infinity.
func finite(f float64) float64 { return min(max(f, -1e300), 1e300) }

// outcome notes what came of the last attempt at an agent.
func (r *Decision) outcome(agent, what string) {
	if r == nil {
		return
	}
	for i := len(r.Walks) - 1; i >= 0; i-- {
		if r.Walks[i].Agent == agent {
			r.Walks[i].Result = what
			return
		}
	}
}

// end closes a record. What the ticket holds is let go.
func (r *Decision) end(outcome string) {
	if r == nil || r.t == nil {
		return
	}
	now := time.Now()
	r.QueuedMS = r.t.waitedFor(now).Milliseconds()
	r.Outcome, r.Ended, r.t = outcome, &now, nil
}

// drained says, step by step, which filter removed whom, "" if no agent serves the
// model.
func (r *Decision) drained() string {
	if r == nil || len(r.Walks) == 0 {
		return ""
	}
	var steps []string
	seen := make(map[string]bool)
	for _, w := range slices.Backward(r.Walks) {
		if seen[w.Step] {
			continue
		}
		seen[w.Step] = true
		var parts []string
		for _, c := range w.Candidates {
			if c.Filter == policy.Passed.String() || len(parts) == 4 {
				continue
			}
			what := c.Agent + " " + c.Filter
			if c.Gate != "" {
				what += " " + c.Gate
			}
			parts = append(parts, what)
		}
		removed := 0
		for _, n := range w.Removed {
			removed += n
		}
		if more := removed - len(parts); more > 0 {
			parts = append(parts, "and "+strconv.Itoa(more)+" more")
		}
		if len(parts) > 0 {
			steps = append(steps, fmt.Sprintf("step %s: %s", w.Step, strings.Join(parts, ", ")))
		}
	}
	slices.Reverse(steps)
	return strings.Join(steps, "; ")
}

// Explain gives the record of a request.
func (s *Scheduler) Explain(request string) (Decision, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.decisions.byID[request]
	if r == nil {
		return Decision{}, false
	}
	out := *r
	if r.t != nil {
		out.QueuedMS = r.t.waitedFor(time.Now()).Milliseconds()
	}
	out.Walks, out.t = slices.Clone(r.Walks), nil
	return out, true
}

// explainCommand answers the question for a record; the argument is the id of the
// request.
func (s *Scheduler) explainCommand(arg []byte) (any, error) {
	d, ok := s.Explain(string(arg))
	if !ok {
		return nil, &bus.Error{Reason: bus.ReasonBadRequest, Param: "request", Message: "this scheduler has no record of the request"}
	}
	return d, nil
}
