package bus

import (
	"maps"
	"strconv"
	"strings"
	"time"
)

// submit publishes the request under a new inbox, so that whatever an earlier
// submission still brings is a stray. call.mu is held.
func (call *Call) submit(now time.Time) {
	c := call.c
	call.detach()
	n := c.next.Add(1)
	sh := c.shards[n%uint64(len(c.shards))]
	call.sh, call.token = sh, n
	call.phase, call.control, call.rival, call.want, call.gap = submitted, "", "", 1, false
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
		call.cancelAgent(call.rival)
	}
}
