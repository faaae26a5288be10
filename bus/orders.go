package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// orderPrefix begins the key of an order in TB_CONFIG; the agent's token follows.
const orderPrefix = "agent."

// Order is what operators want of one agent, until they say otherwise: it survives a
// restart of the agent. The zero value wants nothing.
type Order struct {
	Agent    string    `json:"agent"`
	Drain    bool      `json:"drain,omitempty"`    // finish what is under way, take nothing new
	Cordon   bool      `json:"cordon,omitempty"`   // take nothing new, and say so without hurry
	Capacity int       `json:"capacity,omitempty"` // instead of the agent's own; 0: none was set
	Adapters []Adapter `json:"adapters,omitempty"` // that the engine shall have loaded, by their names
	Reason   string    `json:"reason,omitempty"`
	By       string    `json:"by,omitempty"` // who said so, as they named themselves
	At       time.Time `json:"at,omitzero"`
	CutAt    time.Time `json:"cut_at,omitzero"` // of a drain: when work under way is cut
}

// Idle reports whether the order wants nothing.
func (o Order) Idle() bool { return !o.Drain && !o.Cordon && o.Capacity == 0 && len(o.Adapters) == 0 }

// Equal reports whether two orders are the same.
func (o Order) Equal(p Order) bool {
	same := slices.Equal(o.Adapters, p.Adapters)
	o.Adapters, p.Adapters = nil, nil
	return same && reflect.DeepEqual(o, p)
}

// Limits of what an order may say.
const (
	MaxCapacity  = 100_000
	maxOrderText = 200
)

// Validate reports what is wrong with an order.
func (o Order) Validate() error {
	bad := func(param, format string, args ...any) error {
		e := Errorf(ReasonBadRequest, "%s: %s", param, fmt.Sprintf(format, args...))
		e.Param = param
		return e
	}
	switch {
	case o.Capacity < 0 || o.Capacity > MaxCapacity:
		return bad("capacity", "%d is not between 1 and %d; 0 takes the agent's own again", o.Capacity, MaxCapacity)
	case len(o.Adapters) > MaxAdapters:
		return bad("adapters", "there are %d; the most is %d", len(o.Adapters), MaxAdapters)
	case len(o.Reason) > maxOrderText:
		return bad("reason", "it is longer than %d bytes", maxOrderText)
	case len(o.By) > maxOrderText:
		return bad("by", "it is longer than %d bytes", maxOrderText)
	}
	for _, a := range o.Adapters {
		if err := a.Validate(); err != nil {
			return err
		}
	}
	return nil
}

func orderKey(agent string) string { return orderPrefix + EncodeToken(agent) }

// maxOrderTries bounds the tries to change an order that others change, too.
const maxOrderTries = 5

// ChangeOrder changes the order for an agent and gives the new one, with its revision.
// Changes of several operators at one time all happen, one after the other.
func (l *Link) ChangeOrder(ctx context.Context, agent string, change func(*Order)) (Order, uint64, error) {
	if err := CheckID("agent id", agent); err != nil {
		return Order{}, 0, err
	}
	kv, err := l.Bucket(ctx, BucketConfig)
	if err != nil {
		return Order{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	for range maxOrderTries {
		var o Order
		o, revision, err := readOrder(ctx, kv, agent)
		if err != nil {
			return Order{}, 0, err
		}
		change(&o)
		o.Agent = agent
		if err := o.Validate(); err != nil {
			return Order{}, 0, err
		}
		b, err := json.Marshal(o)
		if err != nil {
			return Order{}, 0, fmt.Errorf("encode the order for %s: %w", agent, err)
		}
		if revision == 0 {
			revision, err = kv.Create(ctx, orderKey(agent), b)
		} else {
			revision, err = kv.Update(ctx, orderKey(agent), b, revision)
		}
		switch {
		case err == nil:
			return o, revision, nil
		case !errors.Is(err, jetstream.ErrKeyExists):
			return Order{}, 0, fmt.Errorf("write the order for %s: %w", agent, err)
		}
	}
	return Order{}, 0, fmt.Errorf("write the order for %s: others change it at the same time", agent)
}

// Order reads the order for an agent, and its revision, which is 0 if there never was
// one.
func (l *Link) Order(ctx context.Context, agent string) (Order, uint64, error) {
	kv, err := l.Bucket(ctx, BucketConfig)
	if err != nil {
		return Order{}, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	return readOrder(ctx, kv, agent)
}

func readOrder(ctx context.Context, kv jetstream.KeyValue, agent string) (Order, uint64, error) {
	e, err := kv.Get(ctx, orderKey(agent))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return Order{Agent: agent}, 0, nil
	case err != nil:
		return Order{}, 0, fmt.Errorf("read the order for %s: %w", agent, err)
	}
	o, err := decodeOrder(e, agent)
	return o, e.Revision(), err
}

func decodeOrder(e jetstream.KeyValueEntry, agent string) (Order, error) {
	var o Order
	if err := json.Unmarshal(e.Value(), &o); err != nil {
		return Order{}, fmt.Errorf("decode the order for %s: %w", agent, err)
	}
	o.Agent = agent
	return o, o.Validate()
}

// WatchOrder calls f with the order for one agent and its revision, the way that
// [Link.WatchPolicies] says: an order that was taken away is one that wants nothing.
// One that can't be read is left out, so that the last one holds.
func (l *Link) WatchOrder(ctx context.Context, agent string, f func(o Order, revision uint64)) error {
	return l.watchConfig(ctx, orderKey(agent), "orders", func(entries []jetstream.KeyValueEntry) {
		if len(entries) == 0 {
			f(Order{Agent: agent}, 0)
			return
		}
		o, err := decodeOrder(entries[0], agent)
		if err != nil {
			l.log.Warn("an order is not followed", "agent", agent, "err", err)
			return
		}
		f(o, entries[0].Revision())
	})
}
