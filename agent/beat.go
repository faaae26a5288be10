package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// snapshot is the whole record as it is now.
func (a *Agent) snapshot() bus.Record {
	state := a.slots.now()
	counts, latencies := a.slots.counted()
	a.mu.Lock()
	r, m := a.record, a.measured
	a.mu.Unlock()
	r.State, r.Counters, r.Seen = state, &counts, time.Now()
	if latencies != (bus.Latencies{}) {
		r.Latencies = &latencies
	}
	r.Full = true
	a.slots.describe(&r)
	a.describe(&r, m, r.Seen)
	return r
}

// beatSoon makes a short beat go out, at most BeatCoalesce late.
func (a *Agent) beatSoon() { signal(a.dirty) }

// beatNow makes a beat go out; with record, a full one, and the record follows.
func (a *Agent) beatNow(record bool) {
	if record {
		signal(a.full)
	}
	signal(a.dirty)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// beat says the state on every change, coalesced, and at least each second. The
// first change after a pause goes out at once.
func (a *Agent) beat(ctx context.Context) error {
	subject := bus.BeatSubject(a.cfg.Region, a.cfg.ID)
	t := time.NewTicker(bus.BeatEvery)
	defer t.Stop()
	for {
		full := false
		select {
		case <-ctx.Done():
			return nil
		case <-a.dirty:
		case <-t.C:
			full = true
			a.notifier.Kick()
		}
		select {
		case <-a.full:
			full = true
			a.recordSoon()
		default:
		}
		if full {
			a.link.PublishJSON(subject, a.snapshot())
		} else {
			a.link.PublishJSON(subject+bus.StateSuffix, a.slots.now())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(bus.BeatCoalesce):
		}
	}
}

func (a *Agent) recordSoon() { signal(a.write) }

// keepRecord writes the record to the bucket on change, at most once a second, and
// often enough that it does not expire; and the counters. JetStream may be away:
// beats are what routing needs.
func (a *Agent) keepRecord(ctx context.Context) error {
	a.link.OnReconnect(a.recordSoon)
	refresh := time.NewTicker(bus.RecordRefresh)
	defer refresh.Stop()
	flush := time.NewTicker(a.cfg.FlushInterval)
	defer flush.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-a.write:
		case <-refresh.C:
		case <-flush.C:
			a.saveCounters(ctx)
			a.keepOrder()
			continue
		}
		err := a.link.PutJSON(ctx, bus.BucketAgents, bus.RecordKey(a.cfg.ID), a.snapshot())
		if err != nil && ctx.Err() == nil {
			if failures++; failures == 3 {
				a.log.Warn("the agent record can't be written; traffic flows without it", "err", err)
			}
			a.recordSoon()
		} else {
			failures = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// leave takes the record back and says that the agent is gone.
func (a *Agent) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	state := a.slots.now()
	state.Status = bus.StatusGone
	state.Seq++
	if b, err := json.Marshal(state); err == nil {
		_ = a.link.Control.Publish(bus.BeatSubject(a.cfg.Region, a.cfg.ID), b)
	}
	a.saveCounters(ctx)
	_ = a.link.DeleteRecord(ctx, a.cfg.ID, a.epoch)
	_ = a.link.Flush(ctx)
}
