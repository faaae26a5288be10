package bus

import (
	"errors"
	"io"
	"iter"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Head is the beginning of an answer.
type Head struct {
	Status   int         // the engine's HTTP status
	Header   http.Header // the engine's end-to-end fields
	Length   int64       // bytes of the body, if the engine said; else -1
	Agent    string      // who serves
	Attempts int         // attempts that reached an agent, at least 1
	Queued   time.Duration
}

// End is what is known when an answer is complete.
type End struct {
	Bytes    int64 // of the body
	Usage    Usage // valid if HasUsage
	HasUsage bool
	Timing   Timing
}

// Timing are durations measured by the agent.
type Timing struct {
	Queue  time.Duration // in the scheduler
	Accept time.Duration // from dispatch taken to engine called
	First  time.Duration // from engine called to its first byte of body
	Total  time.Duration // from dispatch taken to the last byte
}

// phase says who is expected to speak next.
type phase int

const (
	submitted phase = iota // published; nobody spoke yet
	queued                 // a scheduler holds it
	accepted               // an agent holds it
	flowing                // the head is here
	over
)

// Call is one request under way. Head, Read and Close are for one goroutine.
type Call struct {
	c       *Client
	subject string
	window  int
	started time.Time
	timeout time.Duration
	stop    func() bool
	wake    chan struct{}

	batch    []item        // taken from queue, not yet given out
	consumed int           // bytes given out since the last acknowledgement
	credited uint64        // sequence number acknowledged by the reader
	given    atomic.Uint64 // sequence number of the last frame given out

	mu        sync.Mutex
	header    Header
	body      []byte // until the head is here
	streaming bool
	sh        *shard
	token     uint64
	phase     phase
	control   string // of whoever holds the request
	want      uint64 // next sequence number
	queue     []item
	head      *Head
	end       *End
	err       *Error
	heard     time.Time // last frame
	pinged    time.Time
	alone     bool      // the server said that the holder is gone
	lonely    time.Time // since when no scheduler listens; zero if one does
	resubmit  time.Time // when to publish again; zero if not
	asked     time.Time // last resend request
	ackedAt   time.Time
	tries     int
	excluded  []string
	closed    bool
}

// item is a frame with payload.
type item struct {
	seq  uint64
	data []byte
}

// submit publishes the request under a new inbox, so that whatever an earlier
// submission still brings is a stray. call.mu is held.
func (call *Call) submit(now time.Time) {
	c := call.c
	call.detach()
	n := c.next.Add(1)
	sh := c.shards[n%uint64(len(c.shards))]
	call.sh, call.token = sh, n
	call.phase, call.control, call.want = submitted, "", 1
	call.heard, call.alone, call.resubmit, call.pinged = now, false, time.Time{}, time.Time{}
	sh.mu.Lock()
	sh.calls[n] = call
	sh.mu.Unlock()

	left := call.timeout - now.Sub(call.started)
	h := call.header
	set(h, HeaderWindow, strconv.Itoa(call.window))
	SetBudget(h, left)
	if call.tries > 0 {
		set(h, HeaderTries, strconv.Itoa(call.tries))
		set(h, HeaderExclude, strings.Join(call.excluded, ","))
	}
	m := &Msg{Subject: call.subject, Reply: sh.prefix + strconv.FormatUint(n, 36), Header: h, Data: call.body}
	if len(call.body) > InlineBody {
		set(h, HeaderBody, BodyPrefix(c.id)+strconv.FormatUint(n, 36))
		m.Data = nil
	}
	if c.local != nil && sh.nc.IsConnected() {
		own := *m
		own.Header = maps.Clone(h) // the scheduler edits it
		if c.local(&own) {
			return
		}
	}
	if err := sh.nc.PublishMsg(m); err != nil {
		call.nobodyThere(now, err)
	}
}

// detach forgets the inbox of the present submission.
func (call *Call) detach() {
	if call.sh == nil {
		return
	}
	call.sh.mu.Lock()
	delete(call.sh.calls, call.token)
	call.sh.mu.Unlock()
	call.sh = nil
}

// nobodyThere plans another submission when no scheduler can be reached, or gives
// up. call.mu is held.
func (call *Call) nobodyThere(now time.Time, cause error) {
	if call.lonely.IsZero() {
		call.lonely = now
	}
	if now.Sub(call.lonely) < schedulerGrace && now.Sub(call.started) < call.timeout {
		call.resubmit = now.Add(resubmitPause)
		return
	}
	if cause != nil {
		call.fail(&Error{Reason: ReasonBusUnavailable, Message: "the bus can't be reached", Hint: "try again; operators: is the NATS server up?", Cause: cause})
		return
	}
	call.fail(&Error{Reason: ReasonNoScheduler, Message: "no scheduler listens on the bus", Hint: "operators: start tokenbus scheduler"})
}

// nobody takes the server's word that a message of ours found no listener: the
// request itself, or a ping to whoever holds it.
func (call *Call) nobody() {
	call.mu.Lock()
	defer call.mu.Unlock()
	now := time.Now()
	switch {
	case call.phase == submitted:
		call.nobodyThere(now, nil)
	case call.phase == queued:
		call.again(now)
	case call.phase != over:
		call.alone = true
	}
}

// take puts a frame where the reader finds it.
func (call *Call) take(control string, kind Kind, seq uint64, m *Msg) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.phase == over {
		return
	}
	now := time.Now()
	if control != call.control && !call.bind(control) {
		return
	}
	call.heard, call.alone, call.lonely = now, false, time.Time{}
	switch kind {
	case KindQueued:
		call.phase = max(call.phase, queued)
		return
	case KindAccepted, KindKeepalive:
		call.phase = max(call.phase, accepted)
		if seq >= call.want {
			call.askAgain(now, false)
		}
		return
	}
	if isAgent(control) {
		call.phase = max(call.phase, accepted) // it runs, whatever frame came first
	}
	if seq < call.want {
		// A scheduler's word is never numbered before an agent's.
		if kind != KindError || seq != 0 {
			call.c.stats.duplicates.Add(1)
			return
		}
	} else if seq > call.want {
		call.askAgain(now, false)
		return
	}
	call.want = seq + 1
	switch kind {
	case KindHead, KindWhole:
		call.head = headFrom(m.Header)
		call.phase = flowing
		call.body, call.header = nil, nil
	case KindError:
		e := ErrorFrom(m.Header)
		if e == nil {
			e = Errorf(ReasonInternal, "the error frame says nothing")
		}
		if get(m.Header, HeaderClass) != "" && call.head == nil && call.tries+1 < maxTries {
			// The attempt failed before its first byte, and its scheduler is gone.
			call.tries++
			call.exclude()
			call.again(now)
			return
		}
		call.fail(e)
		return
	}
	if len(m.Data) > 0 {
		call.queue = append(call.queue, item{seq, m.Data})
	}
	if kind.Final() {
		call.end = endFrom(m.Header)
		call.phase = over
		call.publishAck(seq, now)
	}
	call.signal()
}

// bind decides whether the frames of another holder than the present one count. Of
// two attempts the later one counts, until bytes have come; the other is cancelled.
func (call *Call) bind(control string) bool {
	if call.want > 1 || older(control, call.control) {
		call.cancelAgent(control)
		return false
	}
	if isAgent(control) {
		call.cancelAgent(call.control)
	}
	call.control = control
	call.phase = min(call.phase, queued)
	return true
}

func isAgent(control string) bool { return strings.HasPrefix(control, "tb.agent.") }

// older reports whether a belongs to an earlier attempt of an agent than b.
// Attempt ids end in the number of the try.
func older(a, b string) bool {
	return isAgent(a) && isAgent(b) && try(a) < try(b)
}

func try(control string) int {
	id := lastToken(control)
	n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	return n
}

// cancelAgent tells an agent that its attempt is not wanted. call.mu is held.
func (call *Call) cancelAgent(control string) {
	if isAgent(control) {
		_ = call.sh.nc.Publish(control+"."+verbCancel, nil)
	}
}

// askAgain asks the sender for everything from the wanted frame on. call.mu is
// held.
func (call *Call) askAgain(now time.Time, reconnected bool) {
	if call.control == "" || call.phase == over || call.phase < accepted {
		return
	}
	if !reconnected {
		if now.Sub(call.asked) < tick/2 {
			return
		}
		call.c.stats.resends.Add(1)
	}
	call.asked = now
	_ = call.sh.nc.Publish(call.control+"."+verbResend+"."+strconv.FormatUint(call.want, 10), nil)
}

func (call *Call) publishAck(seq uint64, now time.Time) {
	call.ackedAt = now
	_ = call.sh.nc.Publish(call.control+"."+verbAck+"."+strconv.FormatUint(seq, 10), nil)
}

// again publishes the request once more: whoever held it is gone, and no byte has
// come. call.mu is held.
func (call *Call) again(now time.Time) {
	call.c.stats.resubmits.Add(1)
	call.submit(now)
}

// watch does what time asks for.
func (call *Call) watch(now time.Time) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.phase == over || call.sh == nil {
		return
	}
	if now.Sub(call.started) > call.timeout && (call.phase < flowing || !call.streaming) {
		call.cancelHolder()
		call.fail(Errorf(ReasonDeadline, "no answer within %v", call.timeout))
		return
	}
	if !call.resubmit.IsZero() {
		if now.After(call.resubmit) {
			call.submit(now)
		}
		return
	}
	up := time.Unix(0, call.sh.lastUp.Load())
	if !call.sh.nc.IsConnected() {
		if now.Sub(later(call.heard, up)) > forgetAfter {
			call.fail(Errorf(ReasonBusUnavailable, "the bus did not come back"))
		}
		return
	}
	if call.phase >= accepted && now.Sub(call.ackedAt) >= ackEvery {
		call.publishAck(call.given.Load(), now)
	}
	quiet := now.Sub(later(call.heard, up))
	if quiet < pingAfter {
		return
	}
	if call.control != "" && now.Sub(call.pinged) >= pingAfter/2 {
		call.pinged = now
		_ = call.sh.nc.PublishRequest(call.control+"."+verbPing, call.sh.prefix+strconv.FormatUint(call.token, 36), nil)
	}
	if quiet >= silenceLimit || call.alone && quiet >= lostAfter {
		call.lost(now)
	}
}

// lost handles a holder that is silent for too long.
func (call *Call) lost(now time.Time) {
	agent := call.phase >= accepted
	if agent {
		call.cancelHolder()
	}
	gone := Errorf(ReasonAgentLost, "the agent that served the request can't be reached any more")
	switch {
	case call.phase == flowing:
		call.fail(gone)
	case agent:
		call.tries++
		call.exclude()
		if call.tries >= maxTries {
			call.fail(gone)
			return
		}
		call.again(now)
	default:
		call.again(now)
	}
}

// exclude remembers not to use the present agent again.
func (call *Call) exclude() {
	if id := agentOf(call.control); id != "" {
		call.excluded = append(call.excluded, id)
	}
}

// agentOf gives the agent id in a control subject.
func agentOf(control string) string {
	rest, ok := strings.CutPrefix(control, "tb.agent.")
	if !ok {
		return ""
	}
	token, _, _ := strings.Cut(rest, ".")
	id, err := DecodeToken(token)
	if err != nil {
		return ""
	}
	return id
}

// cancelHolder tells whoever holds the request to drop it. call.mu is held.
func (call *Call) cancelHolder() {
	if call.control != "" && call.sh != nil {
		_ = call.sh.nc.Publish(call.control+"."+verbCancel, nil)
	}
}

// fail ends the call with an error. call.mu is held.
func (call *Call) fail(e *Error) {
	if call.phase == over {
		return
	}
	call.phase, call.err = over, e
	call.signal()
}

// abort cancels the work and fails the call.
func (call *Call) abort(e *Error) {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.phase == over {
		return
	}
	call.cancelHolder()
	call.fail(e)
	call.detach() // what still comes is a stray and is told so
}

func (call *Call) signal() {
	select {
	case call.wake <- struct{}{}:
	default:
	}
}

// Head waits for the beginning of the answer. The error is an [*Error]; if it has
// the reason of a refusal, nothing ran.
func (call *Call) Head() (*Head, error) {
	for {
		call.mu.Lock()
		head, err := call.head, call.err
		call.mu.Unlock()
		if head != nil {
			return head, nil
		}
		if err != nil {
			return nil, err
		}
		<-call.wake
	}
}

// Read gives the next bytes of the body as they came, io.EOF behind the last, or
// the [*Error] that broke the answer. The bytes stay valid.
func (call *Call) Read() ([]byte, error) {
	for len(call.batch) == 0 {
		call.mu.Lock()
		call.batch, call.queue = call.queue, call.batch[:0]
		end, err := call.end, call.err
		call.mu.Unlock()
		if len(call.batch) > 0 {
			break
		}
		if end != nil {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		<-call.wake
	}
	next := call.batch[0]
	call.batch[0] = item{}
	call.batch = call.batch[1:]
	call.given.Store(next.seq)
	call.consumed += len(next.data)
	if call.consumed >= call.window/2 || next.seq-call.credited >= maxRingFrames/2 {
		call.consumed, call.credited = 0, next.seq
		call.mu.Lock()
		if call.phase != over {
			call.publishAck(next.seq, time.Now())
		}
		call.mu.Unlock()
	}
	return next.data, nil
}

// Ready reports whether Read would return bytes without waiting.
func (call *Call) Ready() bool {
	if len(call.batch) > 0 {
		return true
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	return len(call.queue) > 0
}

// Idle reports whether more is to come and nothing is here: the time to flush.
func (call *Call) Idle() bool {
	if len(call.batch) > 0 {
		return false
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	return len(call.queue) == 0 && call.end == nil
}

// Wait blocks until Read would not, or until d has passed; it reports which.
func (call *Call) Wait(d time.Duration) bool {
	if call.Ready() {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-call.wake:
		call.signal() // for Read or Head
		return true
	case <-t.C:
		return false
	}
}

// End is what is known of a complete answer, nil before Read gave io.EOF.
func (call *Call) End() *End {
	call.mu.Lock()
	defer call.mu.Unlock()
	if len(call.batch) > 0 || len(call.queue) > 0 {
		return nil
	}
	return call.end
}

// Complete gives what is known of the answer once all of it has arrived, whether
// it was read or not; nil before.
func (call *Call) Complete() *End {
	call.mu.Lock()
	defer call.mu.Unlock()
	return call.end
}

// Close ends the call. If the answer is not complete, the work is cancelled and
// the engine's connection closed.
func (call *Call) Close() {
	call.stop()
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.closed {
		return
	}
	call.closed = true
	if call.phase != over {
		call.cancelHolder()
		call.phase, call.err = over, Errorf(ReasonCancelled, "the call was closed")
	}
	call.detach()
	call.body, call.queue = nil, nil
	call.c.active.Add(-1)
}

// Stream iterates over the bytes of the body. The last pair holds the error that
// broke the answer, if one did.
func (call *Call) Stream() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			b, err := call.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

func headFrom(h Header) *Head {
	head := &Head{Header: make(http.Header, len(h)), Agent: get(h, HeaderAgent), Attempts: 1, Length: -1}
	if n, ok := getInt(h, HeaderLength); ok {
		head.Length = n
	}
	if n, ok := getInt(h, HeaderStatus); ok {
		head.Status = int(n)
	}
	if n, ok := getInt(h, HeaderAttempts); ok {
		head.Attempts = int(n)
	}
	if n, ok := getInt(h, HeaderQueueMs); ok {
		head.Queued = time.Duration(n) * time.Millisecond
	}
	for name, values := range h {
		if !Internal(name) {
			head.Header[name] = values
		}
	}
	return head
}

func endFrom(h Header) *End {
	end := &End{}
	end.Bytes, _ = getInt(h, HeaderBytes)
	end.Usage, end.HasUsage = parseUsage(get(h, HeaderUsage))
	var us [4]int64
	for i, s := range strings.Fields(get(h, HeaderTiming)) {
		if i < len(us) {
			us[i], _ = strconv.ParseInt(s, 10, 64)
		}
	}
	end.Timing = Timing{
		Queue: time.Duration(us[0]) * time.Microsecond, Accept: time.Duration(us[1]) * time.Microsecond,
		First: time.Duration(us[2]) * time.Microsecond, Total: time.Duration(us[3]) * time.Microsecond,
	}
	return end
}
