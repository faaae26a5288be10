package sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// call is one inference request on its way through a handler. Every call ends
// exactly once, by end.
type call struct {
	s        *Server
	w        http.ResponseWriter
	r        *http.Request
	entry    *entry
	body     []byte
	plan     plan
	id       string // without a prefix such as "chatcmpl-", escaped for JSON
	model    string // escaped for JSON
	adapter  string // LoRA id, "" for the model itself
	created  int64
	seq      *sequence // nil before the engine
	messages bool      // errors in the Anthropic envelope
	over     bool
}

// infer wraps an inference handler: it records, checks the key, reads the
// body, applies faults and writes the error the handler returns. A handler
// that returns nil has ended the call.
func (s *Server) infer(serve func(*call) *apiError) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{s: s, w: w, r: r, messages: strings.HasPrefix(r.URL.Path, "/v1/messages")}
		c.begin()
		// Reached without an end only by a panic that cuts the connection.
		defer func() {
			if !c.over {
				c.end(OutcomeFaulted, 0)
			}
		}()
		if !s.authorized(r) {
			c.end(OutcomeRejected, http.StatusUnauthorized)
			writeUnauthorized(w)
			return
		}
		if fault := c.read(); fault != nil {
			c.reject(fault)
			return
		}
		if c.over {
			return
		}
		c.plan = s.plan(r, c.body, true)
		if c.plan.answer != nil && c.answered() {
			return
		}
		if s.isDead() {
			c.reject(engineDead())
			return
		}
		if fault := serve(c); fault != nil {
			c.reject(fault)
		}
	}
}

func (c *call) begin() {
	now := time.Now()
	c.created = now.Unix()
	own := c.s.ids.Add(1)
	c.id = c.r.Header.Get("X-Request-Id")
	if c.id == "" {
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], mix(c.s.cfg.Seed^own))
		binary.BigEndian.PutUint64(b[8:], mix(^c.s.cfg.Seed^own<<1))
		c.id = hex.EncodeToString(b[:])
	}
	c.entry = &entry{Entry: Entry{
		RequestID: c.r.Header.Get("X-Request-Id"), EngineID: c.id,
		Method: c.r.Method, Path: c.r.URL.Path, Query: c.r.URL.RawQuery,
		ReceivedAt: now,
	}}
	if c.s.cfg.KeepRequests > 0 {
		c.entry.Header = c.r.Header
	}
	c.id = jsonInner(c.id)
	c.s.mu.Lock()
	c.s.record.receive(c.entry)
	c.s.mu.Unlock()
}

// read takes in the whole body.
func (c *call) read() *apiError {
	limit := c.s.cfg.MaxBodyBytes
	var err error
	if size := c.r.ContentLength; size >= 0 && size <= limit {
		c.body = make([]byte, size)
		_, err = io.ReadFull(c.r.Body, c.body)
	} else {
		var b bytes.Buffer
		_, err = b.ReadFrom(http.MaxBytesReader(c.w, c.r.Body, limit))
		c.body = b.Bytes()
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return byStatus(http.StatusRequestEntityTooLarge)
	case err != nil:
		c.end(OutcomeAborted, 0)
		return nil
	}
	sum := sha256.Sum256(c.body)
	keep := min(len(c.body), c.s.cfg.KeepBodyBytes)
	c.s.mu.Lock()
	c.entry.sum, c.entry.BodyBytes = sum, int64(len(c.body))
	if c.entry.Number > c.s.record.number-c.s.record.keep && keep > 0 {
		// A short body is kept as it is: it stays unchanged. Of a long one
		// only a copy of the head may outlive the request.
		c.entry.Body = c.body
		if keep < len(c.body) {
			c.entry.Body = bytes.Clone(c.body[:keep])
		}
	}
	c.s.mu.Unlock()
	return nil
}

// answered plays the fault that answers the request, if that ends it.
func (c *call) answered() bool {
	f := c.plan.answer
	c.note(f)
	if f.Kind == HangBeforeHeaders {
		if !c.s.play(c.w, c.r, f) {
			c.note(nil)
			return false
		}
		c.end(OutcomeAborted, 0)
		return true
	}
	c.s.play(c.w, c.r, f)
	c.end(OutcomeFaulted, f.Status)
	return true
}

// note names the fault that makes the end of the call.
func (c *call) note(f *Fault) {
	c.s.mu.Lock()
	c.entry.Fault = ""
	if f != nil {
		c.entry.Fault = f.Kind
	}
	c.s.mu.Unlock()
}

// use checks the model and fixes the name the answer carries.
func (c *call) use(name string) *apiError {
	if name == "" {
		name = c.s.cfg.Models[0]
	}
	known := false
	for _, m := range c.s.cfg.Models {
		known = known || m == name
	}
	c.s.mu.Lock()
	c.entry.Model = name
	if !known {
		if _, known = c.s.adapters[name]; known {
			c.adapter = name
		}
	}
	c.s.mu.Unlock()
	if !known {
		return noModel(name)
	}
	c.model = jsonInner(name)
	return nil
}

// submit hands a prompt to the engine. steps is 0 for pooling, each says that
// the handler wants every step.
func (c *call) submit(salt, prompt string, steps, width int, each bool, reason string) {
	chars := utf8.RuneCountInString(prompt)
	q := &sequence{
		prompt: tokensOf(chars), chars: chars, want: steps, width: width, each: each, reason: reason,
		stopAt: -1, slow: c.plan.slow, stride: 1, delay: c.plan.delay, wake: make(chan struct{}, 1),
	}
	if c.plan.stop != nil {
		q.stopAt = c.plan.stop.Tokens
	}
	for float64(q.stride) < q.slow {
		q.stride++
	}
	if c.s.cfg.PrefixCache {
		q.blocks = blockKeys(c.adapter+"\x00"+salt, prompt, c.s.cfg.BlockChars)
	}
	c.seq = q
	c.s.mu.Lock()
	c.entry.PromptTokens, c.entry.Stream = q.prompt, each
	c.s.record.counts.Queued++
	c.s.engine.submit(q, time.Now())
	c.s.mu.Unlock()
}

// reject ends the call with an error answer.
func (c *call) reject(e *apiError) {
	c.end(OutcomeRejected, e.status)
	body := e.body()
	if c.messages {
		body = e.anthropicBody()
	}
	writeJSON(c.w, e.status, []byte(body))
}

// end leaves the engine and books the outcome. An abort of what the engine had
// completed is a finish: all of it was produced.
func (c *call) end(outcome string, status int) {
	if c.over {
		return
	}
	c.over = true
	now := time.Now()
	s, in := c.s, waiting
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := c.seq; q != nil {
		in = s.engine.leave(q, now, outcome == OutcomeFinished)
		if outcome == OutcomeAborted && in == ended {
			outcome = OutcomeFinished
		}
		c.entry.StartedAt, c.entry.FirstTokenAt = q.started, q.first
		c.entry.CachedTokens = q.cached / CharsPerToken
		c.entry.Tokens = int(q.produced.Load()) * q.width
	}
	c.entry.Status = status
	s.record.end(c.entry, outcome, in, now)
}
