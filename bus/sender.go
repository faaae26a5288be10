package bus

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// maxRingFrames bounds the unacknowledged frames of a stream in count, beside the
// window that bounds them in bytes.
const maxRingFrames = 4096

// frame is a numbered frame that was not acknowledged yet.
type frame struct {
	kind Kind
	hdr  Header
	data []byte
}

// Sender is the sending side of one attempt's answer. One goroutine writes to it;
// the window, resends, keepalives and the death of the caller are handled behind
// its back.
type Sender struct {
	r       *Responder
	attempt string
	reply   string
	control string
	framed  bool
	shadow  bool // nothing is sent
	window  int
	cancel  context.CancelCauseFunc

	room chan struct{} // signalled when the window opens or the stream dies

	mu        sync.Mutex
	err       error // why the stream died
	ring      []frame
	ringBytes int
	acked     uint64 // highest sequence number acknowledged
	next      uint64 // sequence number of the next frame
	ended     bool
	lastSent  time.Time
	lastHeard time.Time // of an acknowledgement
	fullSince time.Time // zero while the window is open
	endedAt   time.Time
	bytes     int64
	greeted   bool // the caller knows who runs its request
}

// Framed reports whether the caller takes frames.
func (s *Sender) Framed() bool { return s.framed }

// Shadow reports whether nobody wants the answer.
func (s *Sender) Shadow() bool { return s.shadow }

// Control is the control subject of the attempt.
func (s *Sender) Control() string { return s.control }

// Send publishes one numbered frame to a framed caller. It copies data, and blocks
// while the window is full. A final frame never waits. The error is why the stream
// died.
func (s *Sender) Send(kind Kind, hdr Header, data []byte) error {
	s.mu.Lock()
	for s.err == nil && !kind.Final() && (s.ringBytes >= s.window || len(s.ring) >= maxRingFrames) {
		if s.fullSince.IsZero() {
			s.fullSince = time.Now()
		}
		s.mu.Unlock()
		<-s.room
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	s.fullSince = time.Time{}
	if s.err != nil {
		return s.err
	}
	f := frame{kind: kind, hdr: hdr}
	if len(data) > 0 {
		f.data = append(make([]byte, 0, len(data)), data...)
	}
	s.ring = append(s.ring, f)
	s.ringBytes += len(data)
	s.bytes += int64(len(data))
	seq := s.next
	s.next++
	s.lastSent, s.greeted = time.Now(), true
	if kind.Final() {
		s.ended, s.endedAt = true, s.lastSent
	}
	s.publish(&s.ring[len(s.ring)-1], seq)
	return nil
}

// Raw publishes one message to a bare caller: bytes of its stream, or its whole
// answer with headers. There is no window; the caller takes what comes.
func (s *Sender) Raw(hdr Header, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.lastSent = time.Now()
	s.bytes += int64(len(data))
	if s.shadow {
		return nil
	}
	kind := KindData
	if hdr != nil {
		kind = KindWhole
	}
	m := &nats.Msg{Subject: s.reply, Reply: frameReply(s.control, kind, 0), Header: hdr, Data: data}
	return s.r.nc.PublishMsg(m)
}

// Bytes is the number of payload bytes sent so far.
func (s *Sender) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Close ends the sender's life. A framed stream that ended lingers in the
// responder until its end is acknowledged; any other is forgotten at once.
func (s *Sender) Close() {
	s.mu.Lock()
	linger := s.framed && s.ended && s.err == nil
	s.mu.Unlock()
	if !linger {
		s.r.forget(s)
	}
}

// publish sends a numbered frame. A publish that fails is repaired like one that
// is lost: the frame stays in the ring.
func (s *Sender) publish(f *frame, seq uint64) {
	reply := frameReply(s.control, f.kind, seq)
	if f.hdr == nil {
		_ = s.r.nc.PublishRequest(s.reply, reply, f.data)
		return
	}
	_ = s.r.nc.PublishMsg(&nats.Msg{Subject: s.reply, Reply: reply, Header: f.hdr, Data: f.data})
}

// hint sends a frame without a number of its own.
func (s *Sender) hint(kind Kind) {
	s.mu.Lock()
	seq := s.next - 1
	s.lastSent = time.Now()
	s.mu.Unlock()
	_ = s.r.nc.PublishRequest(s.reply, frameReply(s.control, kind, seq), nil)
}

// ack drops the frames up to seq.
func (s *Sender) ack(seq uint64) (done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastHeard = time.Now()
	if seq >= s.next || seq <= s.acked {
		return s.ended && len(s.ring) == 0
	}
	n := int(seq - s.acked)
	for i := range n {
		s.ringBytes -= len(s.ring[i].data)
		s.ring[i] = frame{}
	}
	s.ring = s.ring[n:]
	if len(s.ring) == 0 {
		s.ring = nil
	}
	s.acked = seq
	s.signal()
	return s.ended && len(s.ring) == 0
}

// resend publishes everything from seq on again.
func (s *Sender) resend(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastHeard = time.Now()
	if s.err != nil || seq <= s.acked || seq >= s.next {
		return
	}
	for i := seq - s.acked - 1; i < uint64(len(s.ring)); i++ {
		s.publish(&s.ring[i], s.acked+1+i)
	}
	s.lastSent = time.Now()
}

// die ends the stream: the engine's work is cancelled and Send returns err.
func (s *Sender) die(err error) {
	s.mu.Lock()
	if s.err != nil || s.ended {
		s.mu.Unlock()
		if s.framed {
			s.r.forget(s)
		}
		return
	}
	s.err = err
	s.signal()
	s.mu.Unlock()
	s.cancel(err)
}

// yield ends the stream if nothing of the answer was sent: another attempt was faster.
// If both have begun, the caller decides which one it takes.
func (s *Sender) yield() {
	s.mu.Lock()
	begun := s.next > 1
	if !begun && s.err == nil {
		s.err = Errorf(ReasonCancelled, "another attempt at the request was faster")
	}
	err := s.err
	s.signal()
	s.mu.Unlock()
	if !begun {
		s.cancel(err)
	}
}

func (s *Sender) signal() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// windowFrom reads the window that a caller offers, in bytes; 0 is a bare caller.
func windowFrom(h Header) int {
	n, err := strconv.Atoi(get(h, HeaderWindow))
	if err != nil || n <= 0 {
		return 0
	}
	return min(max(n, MinWindow), MaxWindow)
}

// Bounds of a window, in bytes.
const (
	MinWindow     = 16 << 10
	DefaultWindow = 128 << 10
	MaxWindow     = 1 << 20
)
