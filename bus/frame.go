package bus

import (
	"strconv"
	"strings"
)

// Kind says what a frame is. It is one letter of the frame's reply subject.
type Kind byte

// The kinds of frames. Head, Data, End and Whole are numbered from 1 and kept
// until they are acknowledged; any of them may carry payload bytes. The others
// are hints: their number is that of the last numbered frame, and a lost one is
// not repeated.
const (
	KindQueued    Kind = 'q' // a scheduler holds the request; repeated while it waits
	KindAccepted  Kind = 'a' // an agent took a slot for it
	KindHead      Kind = 'h' // the engine's status and headers
	KindData      Kind = 'd' // bytes of the body
	KindEnd       Kind = 'e' // the body is complete; totals, usage, timings
	KindWhole     Kind = 'w' // head, body and end in one message
	KindError     Kind = 'x' // the request failed; nothing follows
	KindKeepalive Kind = 'k' // the holder lives and has nothing to send
)

// Numbered reports whether frames of the kind have their own sequence number.
func (k Kind) Numbered() bool {
	return k == KindHead || k == KindData || k == KindEnd || k == KindWhole || k == KindError
}

// Final reports whether nothing follows a frame of the kind.
func (k Kind) Final() bool { return k == KindEnd || k == KindWhole || k == KindError }

// frameReply builds the reply subject of a frame.
func frameReply(control string, kind Kind, seq uint64) string {
	var buf [192]byte
	b := append(buf[:0], control...)
	b = append(b, '.', byte(kind), '.')
	b = strconv.AppendUint(b, seq, 10)
	return string(b)
}

// parseFrameReply splits the reply subject of a frame. ok is false for anything
// that is not one.
func parseFrameReply(reply string) (control string, kind Kind, seq uint64, ok bool) {
	i := strings.LastIndexByte(reply, '.')
	if i < 3 || reply[i-2] != '.' || i == len(reply)-1 {
		return "", 0, 0, false
	}
	kind = Kind(reply[i-1])
	switch kind {
	case KindQueued, KindAccepted, KindHead, KindData, KindEnd, KindWhole, KindError, KindKeepalive:
	default:
		return "", 0, 0, false
	}
	seq, err := strconv.ParseUint(reply[i+1:], 10, 64)
	if err != nil {
		return "", 0, 0, false
	}
	return reply[:i-2], kind, seq, true
}

// The words that a caller publishes below a control subject. Ack and resend are
// followed by a sequence number.
const (
	verbAck    = "ack"
	verbResend = "resend"
	verbCancel = "cancel"
	verbYield  = "yield" // of a scheduler: cancel, unless the answer has begun
	verbPing   = "ping"
	verbAsk    = "ask" // of a scheduler: answered only if the attempt is not known
)

// parseControl splits what follows a control prefix: the attempt or ticket, the
// word, and its number (0 when the word has none).
func parseControl(rest string) (id, verb string, seq uint64, ok bool) {
	id, rest, ok = strings.Cut(rest, ".")
	if !ok || id == "" {
		return "", "", 0, false
	}
	verb, num, numbered := strings.Cut(rest, ".")
	if !numbered {
		return id, verb, 0, verb != ""
	}
	seq, err := strconv.ParseUint(num, 10, 64)
	return id, verb, seq, err == nil && verb != ""
}
