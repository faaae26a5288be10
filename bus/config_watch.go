package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// configCoalesce is how long changes are gathered: several documents that are put
// together are seen together.
const configCoalesce = 100 * time.Millisecond

// WatchPolicies calls f with all policies, by name: as soon as they are known, after
// changes, and after every reconnect. It returns nil when ctx ends. f is called on the
// goroutine of WatchPolicies. While JetStream does not answer, f is not called: what
// was said last holds.
func (l *Link) WatchPolicies(ctx context.Context, f func([]StoredPolicy)) error {
	return l.watchConfig(ctx, policyPrefix+"*", "policies", func(entries []jetstream.KeyValueEntry) {
		list := make([]StoredPolicy, 0, len(entries))
		for _, e := range entries {
			list = append(list, stored(e))
		}
		f(list)
	})
}

// watchConfig calls f with the entries of TB_CONFIG whose keys match, by key, the way
// that WatchPolicies says. what names them for the log.
func (l *Link) watchConfig(ctx context.Context, pattern, what string, f func([]jetstream.KeyValueEntry)) error {
	again := make(chan struct{}, 1)
	l.OnReconnect(func() {
		select {
		case again <- struct{}{}:
		default:
		}
	})
	for attempt := 1; ; attempt++ {
		known, err := l.watchOnce(ctx, pattern, again, f)
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
			l.log.Warn(what+" can't be read; those known before hold", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-time.After(reconnectDelay(max(attempt, 1))):
		}
	}
}

var errWatchEnded = errors.New("the watch ended")

// watchOnce watches until the next reconnect, which gives nil. A watcher that was
// away can have missed a deletion for ever, so each watch begins with an empty list.
// known tells whether it learned the list.
func (l *Link) watchOnce(ctx context.Context, pattern string, again <-chan struct{}, f func([]jetstream.KeyValueEntry)) (known bool, err error) {
	w, stop, err := l.openWatch(ctx, pattern)
	if err != nil {
		return false, err
	}
	defer stop()
	list := make(map[string]jetstream.KeyValueEntry)
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
				f(byKey(list))
				continue
			case e.Operation() == jetstream.KeyValuePut:
				list[e.Key()] = e
			default:
				delete(list, e.Key())
			}
			if known && changed == nil {
				changed = time.After(configCoalesce)
			}
		case <-changed:
			changed = nil
			f(byKey(list))
		}
	}
}

// openWatch begins a watch. stop must be called after use.
func (l *Link) openWatch(ctx context.Context, pattern string) (w jetstream.KeyWatcher, stop func(), err error) {
	kv, err := l.Bucket(ctx, BucketConfig)
	if err != nil {
		return nil, nil, err
	}
	// The watch ends with its context, so that one can't be a time limit of opening.
	ctx, cancel := context.WithCancel(ctx)
	limit := time.AfterFunc(jsTimeout, cancel)
	w, err = kv.Watch(ctx, pattern)
	if err != nil {
		limit.Stop()
		cancel()
		return nil, nil, fmt.Errorf("watch %s: %w", pattern, err)
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
