package bus

import (
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

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

	batch    []item // taken from queue; those before pos were given out
	pos      int
	began    bool          // Head has given the head
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
	reached   phase  // before it was over, if it ended without an end
	control   string // of whoever holds the request
	rival     string // of another attempt that runs beside it, until one of them answers
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
	gap       bool      // frames were asked for again and have not come
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

// fail ends the call with an error. call.mu is held.
func (call *Call) fail(e *Error) {
	if call.phase == over {
		return
	}
	call.reached, call.phase, call.err = call.phase, over, e
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
			call.began = true
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
	for call.pos == len(call.batch) {
		call.mu.Lock()
		call.batch, call.queue, call.pos = call.queue, call.batch[:0], 0
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
	next := call.batch[call.pos]
	call.batch[call.pos] = item{}
	call.pos++
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

// Idle reports whether more is to come and nothing is here: the time to flush.
func (call *Call) Idle() bool {
	if call.pos < len(call.batch) {
		return false
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	return len(call.queue) == 0 && call.end == nil
}

// Wait blocks until Head, or after it Read, would not, or until d has passed; it
// reports which.
func (call *Call) Wait(d time.Duration) bool {
	if call.ready() {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for !call.ready() {
		select {
		case <-call.wake: // it may be of something that was taken already
		case <-t.C:
			return call.ready()
		}
	}
	return true
}

func (call *Call) ready() bool {
	if call.pos < len(call.batch) {
		return true
	}
	call.mu.Lock()
	defer call.mu.Unlock()
	return len(call.queue) > 0 || call.end != nil || call.err != nil || call.head != nil && !call.began
}

// End is what is known of a complete answer, nil before Read gave io.EOF.
func (call *Call) End() *End {
	call.mu.Lock()
	defer call.mu.Unlock()
	if call.pos < len(call.batch) || len(call.queue) > 0 {
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
		call.reached, call.phase, call.err = call.phase, over, Errorf(ReasonCancelled, "the call was closed")
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
