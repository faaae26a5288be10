package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// configHistory is how many texts of a policy are kept.
const configHistory = 64

// policyPrefix begins the key of a policy in TB_CONFIG.
const policyPrefix = "policy."

// ErrNoPolicy tells that there is no policy of that name, or not that revision of it.
var ErrNoPolicy = errors.New("there is no such policy")

// StoredPolicy is one policy document as it is in TB_CONFIG. Nothing here looks into
// the text: whoever puts one checks it before.
type StoredPolicy struct {
	Name     string
	Text     string
	Revision uint64 // of the bucket: a later change of any policy has a higher one
	At       time.Time
}

var policyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// CheckPolicyName tells what is wrong with the name of a policy.
func CheckPolicyName(name string) error {
	if !policyName.MatchString(name) {
		return fmt.Errorf("%q can't be the name of a policy: it has 1 to 64 letters, digits, _ and -", name)
	}
	return nil
}

// Policies reads all policies, by name.
func (l *Link) Policies(ctx context.Context) ([]StoredPolicy, error) {
	entries, err := l.listConfig(ctx, policyPrefix+"*")
	list := make([]StoredPolicy, 0, len(entries))
	for _, e := range entries {
		list = append(list, stored(e))
	}
	return list, err
}

// listConfig reads the entries of TB_CONFIG whose keys match, by key.
func (l *Link) listConfig(ctx context.Context, pattern string) ([]jetstream.KeyValueEntry, error) {
	kv, err := l.Bucket(ctx, BucketConfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	w, err := kv.Watch(ctx, pattern, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", BucketConfig, ErrNoJetStream, err)
	}
	defer stopWatch(w)
	list := make(map[string]jetstream.KeyValueEntry)
	for {
		select {
		case e, open := <-w.Updates():
			switch {
			case !open:
				return nil, fmt.Errorf("read %s: %w: the connection was lost", BucketConfig, ErrNoJetStream)
			case e == nil:
				return byKey(list), nil
			}
			list[e.Key()] = e
		case <-ctx.Done():
			return nil, fmt.Errorf("read %s: %w: %w", BucketConfig, ErrNoJetStream, ctx.Err())
		}
	}
}

func byKey(list map[string]jetstream.KeyValueEntry) []jetstream.KeyValueEntry {
	all := make([]jetstream.KeyValueEntry, 0, len(list))
	for _, key := range slices.Sorted(maps.Keys(list)) {
		all = append(all, list[key])
	}
	return all
}

// PutPolicy writes the text of a policy, and gives its revision.
func (l *Link) PutPolicy(ctx context.Context, name, text string) (revision uint64, err error) {
	err = l.policy(ctx, name, "write", func(ctx context.Context, kv jetstream.KeyValue, key string) error {
		revision, err = kv.PutString(ctx, key, text)
		return err
	})
	return revision, err
}

// DeletePolicy removes a policy. Its history stays, so that it can be put back.
func (l *Link) DeletePolicy(ctx context.Context, name string) error {
	return l.policy(ctx, name, "delete", func(ctx context.Context, kv jetstream.KeyValue, key string) error {
		if _, err := kv.Get(ctx, key); err != nil {
			return err
		}
		return kv.Delete(ctx, key)
	})
}

// PolicyHistory reads the texts that a policy had, the oldest first, up to 64 changes
// back. It has those of a policy that was deleted, too.
func (l *Link) PolicyHistory(ctx context.Context, name string) ([]StoredPolicy, error) {
	var list []StoredPolicy
	err := l.policy(ctx, name, "read", func(ctx context.Context, kv jetstream.KeyValue, key string) error {
		entries, err := kv.History(ctx, key)
		for _, e := range entries {
			if e.Operation() == jetstream.KeyValuePut {
				list = append(list, stored(e))
			}
		}
		if err == nil && len(list) == 0 {
			return jetstream.ErrKeyNotFound
		}
		return err
	})
	return list, err
}

// PolicyAt reads the text that a policy had at a revision.
func (l *Link) PolicyAt(ctx context.Context, name string, revision uint64) (StoredPolicy, error) {
	var s StoredPolicy
	err := l.policy(ctx, name, "read", func(ctx context.Context, kv jetstream.KeyValue, key string) error {
		e, err := kv.GetRevision(ctx, key, revision)
		if err == nil {
			s = stored(e)
		}
		return err
	})
	return s, err
}

// policy does something with the key of a policy.
func (l *Link) policy(ctx context.Context, name, verb string, f func(context.Context, jetstream.KeyValue, string) error) error {
	if err := CheckPolicyName(name); err != nil {
		return err
	}
	kv, err := l.Bucket(ctx, BucketConfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	switch err := f(ctx, kv, policyPrefix+name); {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return fmt.Errorf("%s policy %s: %w", verb, name, ErrNoPolicy)
	case err != nil:
		return fmt.Errorf("%s policy %s: %w", verb, name, err)
	}
	return nil
}

func stored(e jetstream.KeyValueEntry) StoredPolicy {
	return StoredPolicy{Name: strings.TrimPrefix(e.Key(), policyPrefix), Text: string(e.Value()), Revision: e.Revision(), At: e.Created()}
}
