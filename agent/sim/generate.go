package sim

import (
	"net/http"
	"sync"
)

// encoder writes one dialect's events. Each method appends to b.
type encoder interface {
	// open appends what comes before the first token.
	open(b []byte) []byte
	// step appends the tokens of one decode step, of all choices.
	step(b []byte, i int) []byte
	// close appends what comes after the last token.
	close(b []byte) []byte
	// fail appends the error event, with [DONE] where the dialect has one.
	fail(b []byte, message string, done bool) []byte
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// stream writes the reply as events while the engine produces it: everything
// that one decode step made is one write and one flush. It ends the call.
//
// Like vLLM it sends the status line as soon as the request is accepted, not
// with the first token.
func (c *call) stream(enc encoder) {
	c.w.Header()["Content-Type"] = contentSSE
	flusher, _ := c.w.(http.Flusher)
	flush := func() {
		if flusher != nil {
			flusher.Flush()
		}
	}
	q := c.seq
	if q.state.Load() == live {
		c.w.WriteHeader(http.StatusOK)
		flush()
	}
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	b := (*pooled)[:0]
	alone := c.s.cfg.TokenInterval == 0 // no steps: still a write for each token
	done := c.r.Context().Done()
	sent := 0
	for {
		// State before count: with a final state the count is final too.
		state := q.state.Load()
		made := int(q.produced.Load())
		if sent == 0 && (made > 0 || state == complete) {
			b = enc.open(b)
		}
		for sent < made {
			b = enc.step(b, sent)
			sent++
			if alone && sent < made {
				if _, err := c.w.Write(b); err != nil || c.r.Context().Err() != nil {
					c.end(OutcomeAborted, http.StatusOK)
					return
				}
				flush()
				b = b[:0]
			}
		}
		if state == complete {
			b = enc.close(b)
			// Booked before it is written, so that whoever reads the end of
			// the stream finds it in the record.
			c.end(OutcomeFinished, http.StatusOK)
		}
		if len(b) > 0 {
			if _, err := c.w.Write(b); err != nil {
				c.end(OutcomeAborted, http.StatusOK)
				return
			}
			flush()
		}
		*pooled, b = b, b[:0]
		switch state {
		case complete:
			return
		case held:
			c.stopped(enc)
			return
		}
		select {
		case <-q.wake:
		case <-done:
			c.end(OutcomeAborted, http.StatusOK)
			return
		case <-c.s.dead:
			c.end(OutcomeAborted, http.StatusOK)
			_, _ = c.w.Write(enc.fail(b, engineDead().message, true)) // the client may be gone too
			return
		}
	}
}

// wait waits for the whole reply. When it returns false the call has ended and
// was answered.
func (c *call) wait() bool {
	q := c.seq
	for {
		switch q.state.Load() {
		case complete:
			return true
		case held:
			c.stopped(nil)
			return false
		}
		select {
		case <-q.wake:
		case <-c.r.Context().Done():
			c.end(OutcomeAborted, 0)
			return false
		case <-c.s.dead:
			c.end(OutcomeAborted, http.StatusInternalServerError)
			c.s.answer(c.w, engineDead())
			return false
		}
	}
}

// finish ends the call and writes its whole answer.
func (c *call) finish(body []byte) {
	c.end(OutcomeFinished, http.StatusOK)
	writeJSON(c.w, http.StatusOK, body)
}

// stopped acts out the fault that holds the sequence. enc is nil when nothing
// is streamed.
func (c *call) stopped(enc encoder) {
	f := c.plan.stop
	c.note(f)
	status := http.StatusOK
	if enc == nil {
		status = 0
	}
	switch f.Kind {
	case StallAfter:
		c.s.hang(c.r.Context())
		c.end(OutcomeAborted, status)
	case ResetAfter:
		c.end(OutcomeFaulted, status)
		cut(c.w)
	case CloseAfter:
		c.end(OutcomeFaulted, http.StatusOK)
	case ErrorAfter:
		message := f.Message
		if message == "" {
			message = engineDead().message
		}
		if enc == nil {
			fault := engineDead()
			fault.message = message
			c.end(OutcomeFaulted, fault.status)
			c.s.answer(c.w, fault)
			return
		}
		c.end(OutcomeFaulted, status)
		_, _ = c.w.Write(enc.fail(nil, message, f.Done)) // the client may be gone
	}
}

// reply is the text of all choices of one request.
type reply struct {
	seeds []uint64 // of each choice
	tool  []string // tokens of a tool call's arguments; nil for text
}

// token returns one token, escaped for JSON.
func (t *reply) token(choice, step int) string {
	if t.tool != nil {
		return t.tool[step]
	}
	return escaped[pick(t.seeds[choice], step)]
}

// appendText appends so many tokens of one choice.
func (t *reply) appendText(b []byte, choice, steps int) []byte {
	for i := range steps {
		b = append(b, t.token(choice, i)...)
	}
	return b
}

// newReply prepares the text for a prompt.
func (c *call) newReply(q *request, prompt string, choices int) *reply {
	t := &reply{seeds: make([]uint64, choices)}
	for i := range t.seeds {
		t.seeds[i] = textSeed(c.s.cfg.Seed, q.seed, prompt, i)
	}
	return t
}
