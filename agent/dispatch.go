package agent

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// job is one accepted request.
type job struct {
	a       *Agent
	m       *bus.Msg // until the engine answered
	sender  *bus.Sender
	ctx     context.Context
	cancel  context.CancelCauseFunc
	api     bus.API
	sched   string
	attempt string
	named   string // the id that its caller gave it, for people
	model   string
	stream  bool      // the caller asked for a stream
	tries   string    // that were used before, and the milliseconds in the queue, as the
	queueMs string    // dispatch says
	label   string    // the decision's
	hits    int       // permille of the prompt that is expected in the engine's cache
	alias   string    // under which the model was asked for, "" if it was not
	firstBy time.Time // when the first byte must be here; zero if nobody says
	tokens  int64     // that it is estimated to take
	taken   time.Time // when the dispatch came
	until   time.Time // deadline to the first byte of a stream, or the end of another answer
	called  time.Time // when the engine was called
	first   time.Time // when its first byte of body came
	begun   atomic.Bool
	waiting atomic.Int64 // unix nanoseconds since when the engine's next byte is awaited; 0 if not
}

// dispatch accepts or refuses one dispatch, before the engine sees anything. It
// runs on the subscription's goroutine and does not block.
func (a *Agent) dispatch(m *bus.Msg) {
	h := m.Header
	sched, attempt := bus.FirstHeader(h, bus.HeaderSched), bus.FirstHeader(h, bus.HeaderAttempt)
	if sched == "" || attempt == "" || bus.FirstHeader(h, bus.HeaderReply) == "" {
		return
	}
	prompt, output := bus.Tokens(h)
	tokens := prompt + output
	model := bus.FirstHeader(h, bus.HeaderModel)
	note := a.slots.take(model, tokens)
	if note != bus.NoteAccepted {
		a.notifier.Say(sched, attempt, note)
		return
	}
	now := time.Now()
	j := &job{a: a, m: m, sched: sched, attempt: attempt, model: model, taken: now, tokens: tokens, api: bus.API(bus.FirstHeader(h, bus.HeaderAPI)), stream: bus.FirstHeader(h, bus.HeaderStream) == "1"}
	j.tries, j.queueMs, j.label = bus.FirstHeader(h, bus.HeaderTries), bus.FirstHeader(h, bus.HeaderQueueMs), bus.FirstHeader(h, bus.HeaderLabel)
	j.hits = predicted(h)
	j.alias, j.named = bus.FirstHeader(h, bus.HeaderAlias), bus.FirstHeader(h, bus.HeaderID)
	budget, ok := bus.Budget(h)
	if !ok {
		budget = bus.DefaultTimeout
	}
	j.until = now.Add(budget)
	if d := bus.FirstByteTimeout(h); d > 0 && j.stream {
		j.firstBy = now.Add(d)
	}
	j.ctx, j.cancel = context.WithCancelCause(a.base)
	if j.sender, ok = a.responder.Open(m, j.cancel); !ok {
		j.cancel(nil)
		a.slots.free(ending{outcome: cancelled}, tokens)
		a.notifier.Say(sched, attempt, bus.NoteEnd)
		return
	}
	if j.sender.Shadow() {
		j.stream = false // its whole answer must come in its time
	}
	a.mu.Lock()
	a.jobs[j] = struct{}{}
	a.mu.Unlock()
	a.work.Add(1)
	a.notifier.Say(sched, attempt, bus.NoteAccepted)
	select {
	case a.workers <- j:
	default:
		go a.worker(j)
	}
}

// workerIdle is how long a goroutine waits for another request. It keeps the stack
// that the last one grew.
const workerIdle = 2 * time.Second

// worker serves requests, one after the other.
func (a *Agent) worker(j *job) {
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		j.run()
		a.mu.Lock()
		delete(a.jobs, j)
		a.mu.Unlock()
		j.cancel(nil)
		a.work.Done()
		j = nil
		idle.Reset(workerIdle)
		select {
		case j = <-a.workers:
		case <-idle.C:
			return
		case <-a.base.Done():
			return
		}
	}
}

// jobsInterval is the time between two looks at the jobs whose time may be over.
const jobsInterval = 100 * time.Millisecond

// watchJobs ends jobs whose time is over.
func (a *Agent) watchJobs(ctx context.Context) error {
	t := time.NewTicker(jobsInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			a.mu.Lock()
			for j := range a.jobs {
				j.check(now)
			}
			a.mu.Unlock()
			a.slots.tick(now)
			a.cutLate(now)
			if a.engine.wire != nil {
				a.engine.wire.tidy(now)
			}
		}
	}
}

// overdue reports whether the time of the request is over: to the first byte of a
// stream, or the whole of another answer.
func (j *job) overdue(now time.Time) bool {
	return (!j.begun.Load() || !j.stream) && now.After(j.until)
}

func (j *job) check(now time.Time) {
	begun := j.begun.Load()
	if j.overdue(now) {
		j.cancel(bus.Errorf(bus.ReasonDeadline, "no answer within the request's time"))
	}
	if !begun && !j.firstBy.IsZero() && now.After(j.firstBy) {
		j.cancel(bus.Errorf(bus.ReasonFirstByte, "no first byte within its time"))
	}
	if since := j.waiting.Load(); begun && since != 0 && now.Sub(time.Unix(0, since)) > j.a.cfg.IdleTimeout {
		j.cancel(bus.Errorf(bus.ReasonIdle, "the engine was silent for %v within its answer", j.a.cfg.IdleTimeout))
	}
}

func (a *Agent) abortAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for j := range a.jobs {
		j.cancel(bus.Errorf(bus.ReasonDraining, "the agent was stopped"))
	}
}

// finish gives the slot back, once, when the last byte has left.
func (j *job) finish(o outcome, u bus.Usage) {
	e := ending{outcome: o, usage: u}
	if now := time.Now(); o == succeeded && !j.first.IsZero() {
		e.e2e = now.Sub(j.called)
		if j.stream {
			e.ttft, e.rest = j.first.Sub(j.called), now.Sub(j.first)
		}
	}
	j.a.slots.free(e, j.tokens)
	note := bus.NoteEnd
	if o == succeeded {
		note = bus.NoteGood
		j.a.promises.add(j.hits, u, time.Now())
	}
	j.a.notifier.Say(j.sched, j.attempt, note)
	j.sender.Close()
}

// receipt are the headers of an answer that say who served it.
func (j *job) receipt() bus.Header {
	h := make(bus.Header, 12)
	h[bus.HeaderAgent] = []string{j.a.cfg.ID}
	tries, _ := strconv.Atoi(j.tries)
	h[bus.HeaderAttempts] = []string{strconv.Itoa(tries + 1)}
	if j.queueMs != "" {
		h[bus.HeaderQueueMs] = []string{j.queueMs}
	}
	if j.label != "" {
		h[bus.HeaderLabel] = []string{j.label}
	}
	if j.alias != "" {
		h[bus.HeaderModel] = []string{j.model}
	}
	return h
}

// totals are the headers of the end of an answer.
func (j *job) totals(h bus.Header, bytes int64, u bus.Usage, has bool) bus.Header {
	if h == nil {
		h = make(bus.Header, 4)
	}
	h[bus.HeaderBytes] = []string{strconv.FormatInt(bytes, 10)}
	if has {
		h[bus.HeaderUsage] = []string{u.String()}
	}
	queue, _ := strconv.ParseInt(j.queueMs, 10, 64)
	var b strings.Builder
	b.WriteString(strconv.FormatInt(queue*1000, 10))
	for _, d := range []time.Duration{j.called.Sub(j.taken), j.first.Sub(j.called), time.Since(j.taken)} {
		b.WriteByte(' ')
		b.WriteString(strconv.FormatInt(max(d.Microseconds(), 0), 10))
	}
	h[bus.HeaderTiming] = []string{b.String()}
	return h
}
