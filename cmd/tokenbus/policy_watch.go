package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/schedule"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// policyPoll is how often the files of --policy are looked at. They are polled because
// a notice of the system misses what a mounted volume or a link to a directory changes.
const policyPoll = 2 * time.Second

// startPolicies puts the files of --policy in force, and keeps them so while the
// parts run. Without the flag, the scheduler goes by the policies on the bus.
func (f schedulerFlags) startPolicies(p *parts, s *schedule.Scheduler, log *slog.Logger) error {
	if len(f.Policy) == 0 {
		return nil
	}
	docs, err := loadPolicies(f.Policy)
	if err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	version := uint64(1)
	if err := s.ApplyPolicies(docs, version); err != nil {
		return fmt.Errorf("--policy: %w", err)
	}
	p.start("policy files", func(ctx context.Context) error {
		watchPolicyFiles(ctx, f.Policy, docs, log, func(docs []*policy.Document) {
			version++
			if err := s.ApplyPolicies(docs, version); err != nil {
				log.Warn("the files of --policy are not valid; those before stay in force", "err", err)
			}
		})
		return nil
	})
	return nil
}

// loadPolicies reads files and directories as one set.
func loadPolicies(paths []string) ([]*policy.Document, error) {
	docs, err := readPolicies(paths)
	if err != nil {
		return nil, err
	}
	_, err = policy.NewSet(0, docs)
	return docs, err
}

// watchPolicyFiles calls apply with all documents each time that what the paths hold
// differs from docs, or from what apply was last called with, until ctx ends. What is
// not valid is logged once, and is not applied.
func watchPolicyFiles(ctx context.Context, paths []string, docs []*policy.Document, log *slog.Logger, apply func([]*policy.Document)) {
	t := time.NewTicker(policyPoll)
	defer t.Stop()
	last := "" // the first look reads them again: they may have changed since docs were read
	for {
		if now := fingerprint(paths); now != last {
			last = now
			switch changed, err := loadPolicies(paths); {
			case err != nil:
				log.Warn("the files of --policy are not valid; those before stay in force", "err", err)
			case !slices.EqualFunc(docs, changed, func(a, b *policy.Document) bool { return a.Name == b.Name && a.Text == b.Text }):
				docs = changed
				apply(docs)
				log.Info("policies are in force", "documents", len(docs))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// fingerprint tells the states of files apart without reading them.
func fingerprint(paths []string) string {
	var b strings.Builder
	add := func(path string) {
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(&b, "%q gone\n", path)
			return
		}
		fmt.Fprintf(&b, "%q %d %d\n", path, info.ModTime().UnixNano(), info.Size())
	}
	for _, path := range paths {
		add(path)
		entries, _ := os.ReadDir(path) // none of a file; what is wrong with a directory shows when it is read
		for _, e := range entries {
			add(filepath.Join(path, e.Name()))
		}
	}
	return b.String()
}
