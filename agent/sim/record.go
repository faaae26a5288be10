package sim

import (
	"encoding/hex"
	"net/http"
	"time"
)

// Outcomes of a request.
const (
	// OutcomeInFlight is the outcome of a request that has not ended.
	OutcomeInFlight = ""
	// OutcomeFinished means that the whole answer was produced.
	OutcomeFinished = "finished"
	// OutcomeAborted means that the client went away, or the engine stopped,
	// before the answer was produced.
	OutcomeAborted = "aborted"
	// OutcomeRejected means an error answer of the engine's own checks.
	OutcomeRejected = "rejected"
	// OutcomeFaulted means that an installed fault made the end.
	OutcomeFaulted = "faulted"
)

// Record is what the simulated engine saw: a snapshot. Counters cover the
// inference routes, every request exactly once, so at any moment
//
//	Received = Finished + Aborted + Rejected + Faulted + InFlight
type Record struct {
	Received int64 `json:"received"`
	Queued   int64 `json:"queued"`  // reached the engine's queue
	Started  int64 `json:"started"` // got a slot
	Finished int64 `json:"finished"`
	Aborted  int64 `json:"aborted"`
	Rejected int64 `json:"rejected"`
	Faulted  int64 `json:"faulted"`

	// AbortedIn splits Aborted by the phase the request was in: "waiting"
	// (which includes the reading of its body), "prefill", "decode".
	AbortedIn map[string]int64 `json:"aborted_in"`

	InFlight   int `json:"in_flight"` // received and not ended, in the engine or not
	Running    int `json:"running"`   // hold a slot now
	Waiting    int `json:"waiting"`   // are queued now
	MaxRunning int `json:"max_running"`

	// Hits counts requests by route, all routes; unknown paths are "other".
	Hits map[string]int64 `json:"hits"`
	// Requests are the newest inference requests, oldest first.
	Requests []Entry `json:"requests"`
}

// Entry is one inference request as the engine saw it. Times are zero for what
// did not happen.
type Entry struct {
	Number    int64  `json:"number"`     // counts from 1 in order of arrival
	RequestID string `json:"request_id"` // the X-Request-Id it carried
	EngineID  string `json:"engine_id"`  // the id of the answer
	Method    string `json:"method"`
	Path      string `json:"path"`
	Query     string `json:"query,omitempty"`
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`

	BodySHA256 string `json:"body_sha256"`
	BodyBytes  int64  `json:"body_bytes"`
	// Header and Body are kept for the newest requests only, Body up to
	// Config.KeepBodyBytes. They hold whatever credentials and prompts the
	// request had.
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`

	ReceivedAt   time.Time `json:"received_at"`
	StartedAt    time.Time `json:"started_at,omitzero"`
	FirstTokenAt time.Time `json:"first_token_at,omitzero"`
	EndedAt      time.Time `json:"ended_at,omitzero"`

	PromptTokens int    `json:"prompt_tokens"`
	CachedTokens int    `json:"cached_tokens"`
	Tokens       int    `json:"tokens"`           // tokens produced
	Status       int    `json:"status,omitempty"` // 0: no status line was sent
	Outcome      string `json:"outcome"`
	Phase        string `json:"phase,omitempty"` // of an aborted request
	Fault        string `json:"fault,omitempty"` // kind of the fault that made the end
}

// entry is the live form of Entry, guarded by Server.mu.
type entry struct {
	Entry
	sum [32]byte // digest of the body, printed in the snapshot only
}

// record is guarded by Server.mu.
type record struct {
	counts  Record   // counters only
	ring    []*entry // by number modulo its length
	number  int64    // of the newest entry
	cleared int64    // entries up to this number are forgotten
	keep    int64    // newest entries that keep header and body
}

func newRecord(cfg *Config) *record {
	r := &record{ring: make([]*entry, cfg.KeepEntries), keep: int64(cfg.KeepRequests)}
	r.clear()
	return r
}

// clear forgets entries and zeroes counters. Requests in flight stay so.
func (r *record) clear() {
	inFlight := r.counts.InFlight
	r.counts = Record{AbortedIn: map[string]int64{}, InFlight: inFlight, Received: int64(inFlight)}
	clear(r.ring)
	r.cleared = r.number
}

// receive adds the entry of a request that just arrived.
func (r *record) receive(en *entry) {
	r.number++
	en.Number = r.number
	r.counts.Received++
	r.counts.InFlight++
	size := int64(len(r.ring))
	r.ring[r.number%size] = en
	if old := r.number - r.keep; old > 0 && r.keep < size {
		if o := r.ring[old%size]; o != nil && o.Number == old {
			o.Header, o.Body = nil, nil
		}
	}
}

// end books the outcome of a request.
func (r *record) end(en *entry, outcome string, in phase, now time.Time) {
	en.Outcome, en.EndedAt = outcome, now
	c := &r.counts
	c.InFlight--
	switch outcome {
	case OutcomeFinished:
		c.Finished++
	case OutcomeAborted:
		if in == ended {
			in = decoding
		}
		en.Phase = in.String()
		c.Aborted++
		c.AbortedIn[en.Phase]++
	case OutcomeRejected:
		c.Rejected++
	default:
		c.Faulted++
	}
}

// snapshot copies the record with the newest entries, at most most of them.
func (r *record) snapshot(most int64) Record {
	out := r.counts
	out.AbortedIn = make(map[string]int64, len(r.counts.AbortedIn))
	for k, v := range r.counts.AbortedIn {
		out.AbortedIn[k] = v
	}
	from := max(r.number-min(most, int64(len(r.ring)))+1, r.cleared+1)
	out.Requests = make([]Entry, 0, max(0, r.number-from+1))
	for n := from; n <= r.number; n++ {
		en := r.ring[n%int64(len(r.ring))]
		if en == nil || en.Number != n {
			continue
		}
		e := en.Entry
		if en.sum != [32]byte{} {
			e.BodySHA256 = hex.EncodeToString(en.sum[:])
		}
		out.Requests = append(out.Requests, e)
	}
	return out
}
