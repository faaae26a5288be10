package bus

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Note is one word of an agent to the scheduler that dispatched an attempt.
type Note string

// The notes.
const (
	NoteAccepted     Note = "accepted"
	NoteBusy         Note = "busy"          // refused: all slots are taken
	NoteDraining     Note = "draining"      // refused: takes nothing new
	NoteUnknownModel Note = "unknown-model" // refused: does not serve it
	NoteNotReady     Note = "not-ready"     // refused: the engine is down
	NoteFirst        Note = "first"         // the first byte has left
	NoteEnd          Note = "end"           // the slot is free again
	NoteGood         Note = "good"          // the same, after a whole and good answer
)

// Refusal reports whether the note says that nothing ran.
func (n Note) Refusal() bool {
	return n == NoteBusy || n == NoteDraining || n == NoteUnknownModel || n == NoteNotReady
}

// Notifier sends notes to schedulers. Notes that come while one message is on its
// way share the next: under load there are far fewer messages than notes.
type Notifier struct {
	nc    *nats.Conn
	state func() State // of the agent, now
	wake  chan struct{}

	mu      sync.Mutex
	pending map[string][]byte
}

// NewNotifier makes a notifier whose messages carry the agent's state.
func NewNotifier(l *Link, state func() State) *Notifier {
	return &Notifier{nc: l.Data[0], state: state, wake: make(chan struct{}, 1), pending: make(map[string][]byte)}
}

// Say queues a note. It never blocks.
func (n *Notifier) Say(scheduler, attempt string, note Note) {
	n.mu.Lock()
	b := n.pending[scheduler]
	b = append(b, '\n')
	b = append(b, note...)
	b = append(b, ' ')
	b = append(b, attempt...)
	n.pending[scheduler] = b
	n.mu.Unlock()
	if note == NoteFirst {
		return // it only lets the scheduler forget; the next message takes it along
	}
	n.Kick()
}

// Kick sends what is queued.
func (n *Notifier) Kick() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run sends notes until ctx ends, and then what is left.
func (n *Notifier) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			n.flush()
			return nil
		case <-n.wake:
			n.flush()
		}
	}
}

func (n *Notifier) flush() {
	n.mu.Lock()
	pending := n.pending
	n.pending = make(map[string][]byte, len(pending))
	n.mu.Unlock()
	if len(pending) == 0 {
		return
	}
	head := encodeState(n.state())
	for scheduler, notes := range pending {
		_ = n.nc.Publish(SchedulerAckSubject(scheduler), append(head[:len(head):len(head)], notes...))
	}
}

// encodeState writes a state as one line: id epoch seq active capacity status.
func encodeState(s State) []byte {
	b := append([]byte(EncodeToken(s.ID)), ' ')
	b = append(append(b, s.Epoch...), ' ')
	b = append(strconv.AppendUint(b, s.Seq, 10), ' ')
	b = append(strconv.AppendInt(b, int64(s.Active), 10), ' ')
	b = append(strconv.AppendInt(b, int64(s.Capacity), 10), ' ')
	return append(b, s.Status...)
}

// AttemptNote is a note as a scheduler reads it.
type AttemptNote struct {
	Attempt string
	Note    Note
}

// DecodeNotes reads a message of a [Notifier]; ok is false for anything else.
func DecodeNotes(data []byte, notes []AttemptNote) (state State, _ []AttemptNote, ok bool) {
	line, rest, _ := strings.Cut(string(data), "\n")
	f := strings.Split(line, " ")
	if len(f) != 6 {
		return state, notes, false
	}
	id, err1 := DecodeToken(f[0])
	seq, err2 := strconv.ParseUint(f[2], 10, 64)
	active, err3 := strconv.Atoi(f[3])
	capacity, err4 := strconv.Atoi(f[4])
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return state, notes, false
	}
	state = State{ID: id, Epoch: f[1], Seq: seq, Active: active, Capacity: capacity, Status: Status(f[5])}
	for rest != "" {
		line, rest, _ = strings.Cut(rest, "\n")
		note, attempt, found := strings.Cut(line, " ")
		if !found {
			return state, notes, false
		}
		notes = append(notes, AttemptNote{attempt, Note(note)})
	}
	return state, notes, true
}
