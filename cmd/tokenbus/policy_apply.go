package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// policyFile is a policy as a file has it.
type policyFile struct {
	path, name, text string
}

// policyFiles reads files, and all .yaml and .yml files of directories.
func policyFiles(paths []string) ([]policyFile, error) {
	var files []policyFile
	var problems []error
	from := make(map[string]string)
	read := func(path string) {
		base := filepath.Base(path)
		f := policyFile{path: path, name: strings.TrimSuffix(base, filepath.Ext(base))}
		text, err := os.ReadFile(path)
		if err == nil {
			err = bus.CheckPolicyName(f.name)
		}
		if other, twice := from[f.name]; err == nil && twice {
			err = fmt.Errorf("%s has the same name, %s", other, f.name)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
			return
		}
		from[f.name] = path
		f.text = string(text)
		files = append(files, f)
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			problems = append(problems, err)
		case info.IsDir():
			before := len(files) + len(problems)
			entries, err := os.ReadDir(path)
			if err != nil {
				problems = append(problems, err)
			}
			for _, e := range entries {
				if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
					read(filepath.Join(path, e.Name()))
				}
			}
			if len(files)+len(problems) == before {
				problems = append(problems, fmt.Errorf("%s: there is no .yaml or .yml file in it", path))
			}
		default:
			read(path)
		}
	}
	return files, errors.Join(problems...)
}

// parseFile parses the text of a file. Each problem begins with its path.
func parseFile(f policyFile) (*policy.Document, error) {
	d, err := policy.Parse(f.name, []byte(f.text))
	return d, eachWith(f.path, err)
}

// eachWith puts a place before each of joined errors.
func eachWith(place string, err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, err := range many.Unwrap() {
			all = append(all, fmt.Errorf("%s: %w", place, err))
		}
		return errors.Join(all...)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}

// check tells what is wrong with files: each by itself, and the whole of them.
func (c *policyCmd) check(context.Context, *bus.Link) error {
	files, err := policyFiles(c.Args)
	problems := []error{err}
	var docs []*policy.Document
	for _, f := range files {
		d, err := parseFile(f)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		docs = append(docs, d)
	}
	info, err := os.Stat(c.Args[0])
	if whole := len(files) > 1 || err == nil && info.IsDir(); whole && len(docs) == len(files) {
		_, err := policy.NewSet(0, docs)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(c.out, "%s: ok\n", f.path); err != nil {
			return err
		}
	}
	return nil
}

// apply puts files, after it has checked what would be there then.
func (c *policyCmd) apply(ctx context.Context, link *bus.Link) error {
	docs, err := readPolicies(c.Args)
	if err != nil {
		return unchanged(err)
	}
	return c.put(ctx, link, docs)
}

// readPolicies reads files and directories, each document by itself. The error joins
// everything that is wrong with any of them.
func readPolicies(paths []string) ([]*policy.Document, error) {
	files, err := policyFiles(paths)
	problems := []error{err}
	var docs []*policy.Document
	for _, f := range files {
		d, err := parseFile(f)
		problems = append(problems, err)
		docs = append(docs, d)
	}
	return docs, errors.Join(problems...)
}

// unchanged adds to an error that it came before anything was put.
func unchanged(err error) error { return fmt.Errorf("%w\nnothing was changed", err) }

// put puts documents, after it has checked them together with those that stay.
func (c *policyCmd) put(ctx context.Context, link *bus.Link, docs []*policy.Document) error {
	now, err := link.Policies(ctx)
	if err != nil {
		return err
	}
	whole := slices.Clone(docs)
	was := make(map[string]bus.StoredPolicy)
	var problems []error
	for _, s := range now {
		was[s.Name] = s
		if slices.ContainsFunc(docs, func(d *policy.Document) bool { return d.Name == s.Name }) {
			continue
		}
		d, err := policy.Parse(s.Name, []byte(s.Text))
		if err != nil {
			problems = append(problems, eachWith(fmt.Sprintf("the stored policy %s", s.Name), err))
			continue
		}
		whole = append(whole, d)
	}
	if len(problems) == 0 {
		_, err := policy.NewSet(0, whole)
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return unchanged(err)
	}
	for _, d := range docs {
		if s, ok := was[d.Name]; ok && s.Text == d.Text {
			fmt.Fprintf(c.out, "%s unchanged, revision %d\n", d.Name, s.Revision)
			continue
		}
		revision, err := link.PutPolicy(ctx, d.Name, d.Text)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%s revision %d\n", d.Name, revision)
	}
	return nil
}

// checkStored tells what is wrong with what is stored. It comes after a deletion and
// does not prevent one: of two broken policies, the first could never be deleted.
func checkStored(ctx context.Context, link *bus.Link) error {
	all, err := link.Policies(ctx)
	if err != nil {
		return err
	}
	var docs []*policy.Document
	var problems []error
	for _, s := range all {
		d, err := policy.Parse(s.Name, []byte(s.Text))
		problems = append(problems, eachWith(fmt.Sprintf("the stored policy %s", s.Name), err))
		docs = append(docs, d)
	}
	if err = errors.Join(problems...); err == nil {
		_, err = policy.NewSet(0, docs)
	}
	if err != nil {
		return fmt.Errorf("%w\nthe policies that are left are not valid, so schedulers go by those before", err)
	}
	return nil
}

// rollback puts an older text of a policy as a new revision, so that the history only
// grows.
func (c *policyCmd) rollback(ctx context.Context, link *bus.Link) error {
	name := c.Args[0]
	old, err := c.rollbackTo(ctx, link, name)
	if err != nil {
		return err
	}
	d, err := policy.Parse(name, []byte(old.Text))
	if err != nil {
		return unchanged(eachWith(fmt.Sprintf("revision %d of %s", old.Revision, name), err))
	}
	return c.put(ctx, link, []*policy.Document{d})
}

// rollbackTo is the revision that is asked for, or else the last that differs from
// the current text.
func (c *policyCmd) rollbackTo(ctx context.Context, link *bus.Link, name string) (bus.StoredPolicy, error) {
	if c.To != 0 {
		return link.PolicyAt(ctx, name, c.To)
	}
	history, err := link.PolicyHistory(ctx, name)
	if err != nil {
		return bus.StoredPolicy{}, err
	}
	now, err := storedPolicy(ctx, link, name)
	if err != nil && !errors.Is(err, bus.ErrNoPolicy) {
		return bus.StoredPolicy{}, err
	}
	for _, s := range slices.Backward(history) {
		if now.Revision == 0 || s.Text != now.Text {
			return s, nil
		}
	}
	return bus.StoredPolicy{}, fmt.Errorf("%s has no older text than that of revision %d", name, now.Revision)
}
