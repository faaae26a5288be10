package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// orders is what the agent knows of the order for it.
type orders struct {
	mu       sync.Mutex
	revision uint64
	pending  []func(*bus.Order) // changes in force that could not be written yet

	cut atomic.Bool // work was cut for the order in force
}

// maxPending bounds the changes that wait for JetStream.
const maxPending = 64

// readOrder takes the order that was kept for this identity. If it can't be read soon
// the agent serves, and follows the order when it can.
func (a *Agent) readOrder(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	o, revision, err := a.link.Order(ctx, a.cfg.ID)
	if err != nil {
		a.log.Warn("the operators' order can't be read yet; it is followed when it can", "err", err)
		return
	}
	a.obey(o, revision)
}

// followOrders obeys the order that operators wrote, until ctx ends.
func (a *Agent) followOrders(ctx context.Context) error {
	return a.link.WatchOrder(ctx, a.cfg.ID, a.obey)
}

// obey applies an order that was read, with the changes that came since and could not be
// written.
func (a *Agent) obey(o bus.Order, revision uint64) {
	a.orders.mu.Lock()
	defer a.orders.mu.Unlock()
	if revision < a.orders.revision {
		return
	}
	a.orders.revision = revision
	for _, edit := range a.orders.pending {
		edit(&o)
	}
	a.apply(o)
}

// apply puts an order into force. a.orders.mu is held.
func (a *Agent) apply(o bus.Order) {
	before := a.slots.ordered()
	if o.Equal(before) || o.Idle() && before.Idle() {
		return
	}
	a.orders.cut.Store(false)
	a.slots.update(func(s *slots) { s.order = o })
	a.log.Info("operator's order", "drain", o.Drain, "cordon", o.Cordon, "capacity", o.Capacity, "adapters", len(o.Adapters), "reason", o.Reason, "by", o.By)
	a.event("agent", map[string]any{"agent": a.cfg.ID, "status": a.slots.now().Status, "order": o})
	a.beatNow(true)
}

// change does what a command orders: at once, and kept in TB_CONFIG, where the agent
// finds it after a restart. The warning tells that it could not be kept.
func (a *Agent) change(f func(*bus.Order)) (warning string, err error) {
	a.orders.mu.Lock()
	defer a.orders.mu.Unlock()
	if len(a.orders.pending) == maxPending {
		return "", bus.Errorf(bus.ReasonBusUnavailable, "%d orders wait for JetStream already", maxPending)
	}
	now := clock()
	edit := func(o *bus.Order) {
		f(o)
		o.Agent, o.At = a.cfg.ID, now
		if !o.Drain {
			o.CutAt = time.Time{}
		}
	}
	o := a.slots.ordered()
	edit(&o)
	if err := o.Validate(); err != nil {
		return "", err
	}
	a.apply(o)
	a.orders.pending = append(a.orders.pending, edit)
	if err := a.saveOrder(); err != nil {
		a.log.Warn("the order is in force and can't be kept", "err", err)
		return "the order is in force but could not be kept, so a restart of the agent forgets it: " + err.Error(), nil
	}
	return "", nil
}

// clock is the time as a document keeps it, so that what is read back is equal.
func clock() time.Time { return time.Now().UTC().Round(0) }

// orderTimeout bounds the wait for JetStream within a command.
const orderTimeout = 2 * time.Second

// saveOrder writes the changes that wait, on top of what is kept, which may be more than
// this process could read. a.orders.mu is held.
func (a *Agent) saveOrder() error {
	ctx, cancel := context.WithTimeout(a.base, orderTimeout)
	defer cancel()
	o, revision, err := a.link.ChangeOrder(ctx, a.cfg.ID, func(o *bus.Order) {
		for _, edit := range a.orders.pending {
			edit(o)
		}
	})
	if err != nil {
		return err
	}
	a.orders.revision, a.orders.pending = revision, nil
	a.apply(o)
	return nil
}

// keepOrder writes what could not be kept when it came.
func (a *Agent) keepOrder() {
	a.orders.mu.Lock()
	defer a.orders.mu.Unlock()
	if len(a.orders.pending) > 0 {
		_ = a.saveOrder() // tried again at the next flush
	}
}

// cutLate cuts the work that a drain has given no more time.
func (a *Agent) cutLate(now time.Time) {
	o := a.slots.ordered()
	if !o.Drain || o.CutAt.IsZero() || now.Before(o.CutAt) || a.Active() == 0 {
		return
	}
	if !a.orders.cut.Swap(true) { // no lock: a command may hold it while it waits for JetStream
		a.log.Warn("the time of the drain is over; work in flight is cut", "active", a.Active())
		a.abortAll()
	}
}

// orderArg is what comes with a command. All of it is optional.
type orderArg struct {
	Reason    string `json:"reason"`
	By        string `json:"by"`
	TimeoutMS int64  `json:"timeout_ms"` // of drain: after which work in flight is cut; 0: never
	Capacity  *int   `json:"capacity"`   // of capacity: 0 takes the agent's own again
}

// maxDrain bounds the time that a drain may name.
const maxDrain = 7 * 24 * time.Hour

func parseOrderArg(data []byte) (orderArg, error) {
	var arg orderArg
	if err := decodeArg(data, &arg); err != nil {
		return arg, err
	}
	if arg.TimeoutMS < 0 || arg.TimeoutMS > maxDrain.Milliseconds() {
		e := bus.Errorf(bus.ReasonBadRequest, "timeout_ms: %d is not between 0 and %d", arg.TimeoutMS, maxDrain.Milliseconds())
		e.Param = "timeout_ms"
		return arg, e
	}
	return arg, nil
}

// decodeArg reads the JSON object that comes with a command; nothing is an empty one.
func decodeArg(data []byte, to any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return bus.Errorf(bus.ReasonBadRequest, "the argument of the command: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bus.Errorf(bus.ReasonBadRequest, "the argument of the command: something follows the JSON object")
	}
	return nil
}
