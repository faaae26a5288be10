package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// profiling takes profiles of each role of Tokenbus for one case.
type profiling struct {
	dir     string
	name    string   // of the case
	queries []string // below /debug/pprof/

	once sync.Once
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

// steady is called when the load of a turn is steady: the time for a profile.
func (b *bench) steady(ctx context.Context, t *target) {
	p := b.profiling
	if p == nil {
		return
	}
	p.once.Do(func() {
		for _, proc := range t.procs {
			p.wg.Go(func() {
				for _, query := range p.queries {
					if err := p.take(ctx, proc, query); err != nil {
						p.mu.Lock()
						p.errs = append(p.errs, fmt.Errorf("%s of %s: %w", query, proc.role, err))
						p.mu.Unlock()
					}
				}
			})
		}
	})
}

// take writes a profile of a process, and the text of its top.
func (p *profiling) take(ctx context.Context, proc *process, query string) error {
	resp, err := fetch(ctx, http.MethodGet, proc.admin+"/debug/pprof/"+query, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(query, "?")
	base := filepath.Join(p.dir, p.name+"-"+proc.role+"-"+kind)
	file, err := os.Create(base + ".pprof")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, resp.Body)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	text, err := os.Create(base + ".txt")
	if err != nil {
		return err
	}
	for _, order := range []string{"-flat", "-cum"} {
		cmd := exec.CommandContext(context.WithoutCancel(ctx), "go", "tool", "pprof", "-top", order, "-nodecount=40", base+".pprof")
		cmd.Stdout = text
		err = errors.Join(err, cmd.Run())
	}
	return errors.Join(err, text.Close())
}

// wait waits for the profiles. Of no profiling it does nothing.
func (p *profiling) wait() error {
	if p == nil {
		return nil
	}
	p.wg.Wait()
	return errors.Join(p.errs...)
}
