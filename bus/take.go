package bus

import (
	"strconv"
	"strings"
	"time"
)

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
	if kind == KindError && isAgent(control) && call.head == nil && call.rival != "" {
		call.control, call.rival = call.rival, "" // the other one may do better
		return
	}
	call.want = seq + 1
	call.repaired()
	switch kind {
	case KindHead, KindWhole:
		call.cancelAgent(call.rival)
		call.rival = ""
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
// Of a hedge and the attempt that it runs beside, both count until one answers.
func (call *Call) bind(control string) bool {
	beside := call.want == 1 && (hedges(control, call.control) || hedges(call.control, control))
	if !beside && (call.want > 1 || older(control, call.control)) {
		call.cancelAgent(control)
		return false
	}
	switch {
	case beside:
		call.rival = call.control
	case isAgent(control):
		call.cancelAgent(call.control)
		call.cancelAgent(call.rival)
		call.rival = ""
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
	id := strings.TrimSuffix(lastToken(control), hedgeMark)
	n, _ := strconv.Atoi(id[strings.LastIndexByte(id, '-')+1:])
	return n
}

// hedges reports whether a belongs to an attempt that runs beside that of b.
func hedges(a, b string) bool {
	return isAgent(a) && isAgent(b) && strings.HasSuffix(a, hedgeMark) && try(a) > try(b)
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
		call.gap = true
	}
	call.asked = now
	_ = call.sh.nc.Publish(call.control+"."+verbResend+"."+strconv.FormatUint(call.want, 10), nil)
}

func (call *Call) publishAck(seq uint64, now time.Time) {
	call.ackedAt = now
	_ = call.sh.nc.Publish(call.control+"."+verbAck+"."+strconv.FormatUint(seq, 10), nil)
}
