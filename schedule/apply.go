package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// policyPatience is how long a scheduler that starts waits for the policies on the
// bus before it takes requests: its first ones should not go by other rules than the
// rest. It does not wait longer, because traffic does not need JetStream.
const policyPatience = 500 * time.Millisecond

// ApplyPolicies puts documents in force in place of all those before, or changes
// nothing if they contradict each other. Requests keep the policy under which they
// came. It can be called before and within [Scheduler.Run].
func (s *Scheduler) ApplyPolicies(docs []*policy.Document, version uint64) error {
	set, err := policy.NewSet(version, docs)
	s.mu.Lock()
	if err != nil {
		s.counters.PolicyRejected++
		s.mu.Unlock()
		return err
	}
	s.policies, s.counters.PolicyVersion = set, version
	open := s.open
	s.mu.Unlock()
	if open {
		s.sayAlive() // the aliases may be others
	}
	return nil
}

// watchPolicies keeps the policies of the bus in force until ctx ends. learned is
// called once those of the start are.
func (s *Scheduler) watchPolicies(ctx context.Context, learned func()) {
	learned = sync.OnceFunc(learned)
	var last []bus.StoredPolicy
	first := true
	_ = s.link.WatchPolicies(ctx, func(all []bus.StoredPolicy) {
		// Every reconnect tells them again.
		if first || !slices.EqualFunc(all, last, sameRevision) {
			first, last = false, all
			s.applyStored(all)
		}
		learned()
	})
}

func sameRevision(a, b bus.StoredPolicy) bool { return a.Name == b.Name && a.Revision == b.Revision }

// applyStored puts what is stored on the bus in force. A document that does not load
// was put there past the checks of tokenbus policy; it must not take effect by half,
// so everything stays as it was.
func (s *Scheduler) applyStored(all []bus.StoredPolicy) {
	var docs []*policy.Document
	var problems []error
	version := uint64(0)
	for _, p := range all {
		version = max(version, p.Revision)
		d, err := policy.Parse(p.Name, []byte(p.Text))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s, revision %d: %w", p.Name, p.Revision, err))
			continue
		}
		docs = append(docs, d)
	}
	err := errors.Join(problems...)
	if err != nil {
		s.mu.Lock()
		s.counters.PolicyRejected++
		s.mu.Unlock()
	} else {
		err = s.ApplyPolicies(docs, version)
	}
	if err != nil {
		s.log.Warn("the policies on the bus are not valid; those before stay in force", "err", err)
		return
	}
	s.log.Info("policies are in force", "documents", len(docs), "version", version)
}
