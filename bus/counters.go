package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// AgentCounts are an agent's lifetime counters, restored by its id.
type AgentCounts struct {
	Succeeded        uint64            `json:"succeeded"`
	Failed           uint64            `json:"failed"`
	Failures         map[string]uint64 `json:"failures,omitempty"` // the failed ones by what happened, one of FailureClasses
	Refused          uint64            `json:"refused"`
	Refusals         map[string]uint64 `json:"refusals,omitempty"` // the refused ones by the note that said so
	ClientErrors     uint64            `json:"client_errors"`      // 4xx of the engine
	Cancelled        uint64            `json:"cancelled"`
	PromptTokens     uint64            `json:"prompt_tokens"`
	CompletionTokens uint64            `json:"completion_tokens"`
	CachedTokens     uint64            `json:"cached_tokens"`
	Disconnections   uint64            `json:"disconnections"`  // of the agent from the bus
	EngineFailures   uint64            `json:"engine_failures"` // times that an engine that was well went down or fell silent
}

// FailureClasses are the ways in which a request fails at an engine.
var FailureClasses = []string{
	"refused",      // no connection was taken
	"busy",         // 429 or 503
	"engine_error", // another 5xx
	"lost",         // the connection broke before the first byte, or no first byte came in its time
	"broken",       // the answer broke off
	"deadline",     // the time of the request was over
	"idle",         // the engine fell silent within its answer
	"cut",          // the agent was stopped, or told to drain within a time
}

// Plus adds two sets of counters.
func (c AgentCounts) Plus(o AgentCounts) AgentCounts {
	return c.with(o, func(a, b uint64) uint64 { return a + b })
}

// Minus takes what is in another set of counters away; what would be below nothing is
// nothing.
func (c AgentCounts) Minus(o AgentCounts) AgentCounts {
	return c.with(o, func(a, b uint64) uint64 { return a - min(a, b) })
}

// Clone makes a copy that shares nothing.
func (c AgentCounts) Clone() AgentCounts {
	c.Failures, c.Refusals = maps.Clone(c.Failures), maps.Clone(c.Refusals)
	return c
}

func (c AgentCounts) with(o AgentCounts, f func(a, b uint64) uint64) AgentCounts {
	each := func(a, b map[string]uint64) map[string]uint64 {
		sum := maps.Clone(a)
		for k, n := range b {
			if sum == nil {
				sum = make(map[string]uint64)
			}
			sum[k] = f(sum[k], n)
		}
		return sum
	}
	return AgentCounts{
		Succeeded: f(c.Succeeded, o.Succeeded), Failed: f(c.Failed, o.Failed), Refused: f(c.Refused, o.Refused),
		ClientErrors: f(c.ClientErrors, o.ClientErrors), Cancelled: f(c.Cancelled, o.Cancelled),
		PromptTokens: f(c.PromptTokens, o.PromptTokens), CompletionTokens: f(c.CompletionTokens, o.CompletionTokens),
		CachedTokens: f(c.CachedTokens, o.CachedTokens), Disconnections: f(c.Disconnections, o.Disconnections),
		EngineFailures: f(c.EngineFailures, o.EngineFailures),
		Failures:       each(c.Failures, o.Failures), Refusals: each(c.Refusals, o.Refusals),
	}
}

// Latency is a smoothed time and its mean deviation, in milliseconds, after RFC 6298,
// section 2, with α = 1/8 and β = 1/4. The first time R makes them R and R/2; each that
// follows makes
//
//	VarMS = (1 − β)·VarMS + β·|MS − R|
//	MS    = (1 − α)·MS + α·R
type Latency struct {
	MS    float64 `json:"ms"`
	VarMS float64 `json:"var_ms"`
}

// Add takes one time; nil is a latency that has none yet. The new value shares nothing
// with the old one.
func (l *Latency) Add(d time.Duration) *Latency {
	r := float64(d) / float64(time.Millisecond)
	switch {
	case r < 0:
		return l
	case l == nil:
		return &Latency{MS: r, VarMS: r / 2}
	}
	return &Latency{MS: l.MS + (r-l.MS)/8, VarMS: l.VarMS + (max(l.MS-r, r-l.MS)-l.VarMS)/4}
}

// Latencies are those of the requests that an agent served well. What was never
// measured is nil.
type Latencies struct {
	TTFT *Latency `json:"ttft,omitempty"` // from the call of the engine to the first byte of a stream
	ITL  *Latency `json:"itl,omitempty"`  // from token to token of a stream: the time behind its first byte, over its tokens but one
	E2E  *Latency `json:"e2e,omitempty"`  // from the call of the engine to the last byte
}

// Counters is a document of TB_COUNTERS.
type Counters struct {
	ID        string      `json:"id"`
	Models    []string    `json:"models,omitempty"` // ever served
	Counts    AgentCounts `json:"counts"`
	Latencies Latencies   `json:"latencies"`
	Saved     time.Time   `json:"saved"`
	Writers   []Writer    `json:"writers,omitempty"` // of this, the last one first; at most MaxWriters
}

// MaxWriters bounds the writers that a document of TB_COUNTERS names.
const MaxWriters = 8

// Writer is an agent that wrote a document.
type Writer struct {
	Epoch string `json:"epoch"`
	Write uint64 `json:"write"` // number of its last write, from 1
}

// Wrote gives the number of the last write of an epoch that the document holds; 0 is
// none.
func (c *Counters) Wrote(epoch string) uint64 {
	for _, w := range c.Writers {
		if w.Epoch == epoch {
			return w.Write
		}
	}
	return 0
}

// ErrChanged tells that a document is not what it was when it was read.
var ErrChanged = errors.New("the document was changed meanwhile")

// Counters reads the counters of an agent, and their revision, which is 0 if there are
// none.
func (l *Link) Counters(ctx context.Context, agent string) (doc Counters, revision uint64, err error) {
	kv, err := l.Bucket(ctx, BucketCounters)
	if err != nil {
		return Counters{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	e, err := kv.Get(ctx, AgentCountersKey(agent))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return Counters{}, 0, nil
	case err != nil:
		return Counters{}, 0, fmt.Errorf("read the counters of %s: %w", agent, err)
	}
	if err := json.Unmarshal(e.Value(), &doc); err != nil {
		return Counters{}, 0, fmt.Errorf("decode the counters of %s: %w", agent, err)
	}
	return doc, e.Revision(), nil
}

// PutCounters writes the counters of an agent over those of a revision, and gives the
// new one. The error is [ErrChanged] if they have another revision.
func (l *Link) PutCounters(ctx context.Context, doc Counters, revision uint64) (uint64, error) {
	kv, err := l.Bucket(ctx, BucketCounters)
	if err != nil {
		return 0, err
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return 0, fmt.Errorf("encode the counters of %s: %w", doc.ID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	if revision == 0 {
		revision, err = kv.Create(ctx, AgentCountersKey(doc.ID), b)
	} else {
		revision, err = kv.Update(ctx, AgentCountersKey(doc.ID), b, revision)
	}
	switch {
	case err == nil:
		return revision, nil
	case errors.Is(err, jetstream.ErrKeyExists):
		err = ErrChanged
	}
	return 0, fmt.Errorf("write the counters of %s: %w", doc.ID, err)
}
