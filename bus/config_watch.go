package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// policyCoalesce is how long changes are gathered: several documents that are applied
// together are seen together.
const policyCoalesce = 100 * time.Millisecond

// WatchPolicies calls f with all policies, by name: as soon as they are known, after
// changes, and after every reconnect. It returns nil when ctx ends. f is called on the
// goroutine of WatchPolicies. While JetStream does not answer, f is not called: what
// was said last holds.
func (l *Link) WatchPolicies(ctx context.Context, f func([]StoredPolicy)) error {
	again := make(chan struct{}, 1)
	l.OnReconnect(func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	for attempt := 1; ; attempt++ {
		known, err := l.watchPolicies(ctx, again, f)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		if known {
			attempt = 0
		}
		if err == nil {
			continue // a reconnect
		}
		if attempt == 3 {
			l.log.Warn("policies can't be read; those known before hold", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-time.After(reconnectDelay(max(attempt, 1))):
		}
	}
}

var errWatchEnded = errors.New("the watch of policies ended")

// watchPolicies watches until the next reconnect, which gives nil. A watcher that was
// away can have missed a deletion for ever, so each watch begins with an empty list.
// known tells whether it learned the policies.
func (l *Link) watchPolicies(ctx context.Context, again <-chan struct{}, f func([]StoredPolicy)) (known bool, err error) {
	w, stop, err := l.openPolicyWatch(ctx)
	if err != nil {
		return false, err
	}
	defer stop()
	list := make(map[string]StoredPolicy)
	first := time.After(jsTimeout) // the first list
	var changed <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return known, ctx.Err()
		case <-again:
			return known, nil
		case <-first:
			return known, ErrNoJetStream
		case e, open := <-w.Updates():
			switch {
			case !open:
				return known, errWatchEnded
			case e == nil:
				known, first = true, nil
				f(sorted(list))
				continue
			}
			applyEntry(list, e)
			if known && changed == nil {
				changed = time.After(policyCoalesce)
			}
		case <-changed:
			changed = nil
			f(sorted(list))
		}
	}
}

// openPolicyWatch begins a watch. stop must be called after use.
func (l *Link) openPolicyWatch(ctx context.Context) (w jetstream.KeyWatcher, stop func(), err error) {
	kv, err := l.Bucket(ctx, BucketConfig)
	if err != nil {
		return nil, nil, err
	}
	// The watch ends with its context, so that one can't be a time limit of opening.
	ctx, cancel := context.WithCancel(ctx)
	limit := time.AfterFunc(jsTimeout, cancel)
	w, err = kv.Watch(ctx, policyPrefix+"*")
	if err != nil {
		limit.Stop()
		cancel()
		return nil, nil, fmt.Errorf("watch policies: %w", err)
	}
	stop = func() {
		cancel()
		stopWatch(w)
	}
	if !limit.Stop() {
		stop()
		return nil, nil, ErrNoJetStream
	}
	return w, stop, nil
}

// stopWatch ends a watch. Its writer may be stuck on a full channel, so what is left
// is read.
func stopWatch(w jetstream.KeyWatcher) {
	_ = w.Stop()
	for range w.Updates() { //nolint:revive // drained
	}
}
