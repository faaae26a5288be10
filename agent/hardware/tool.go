package hardware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// tool is the command line tool of a vendor.
type tool struct {
	name  string
	dirs  []string // where it may be besides the search path
	args  []string
	parse func([]byte) ([]bus.GPU, error)
}

// find gives the path of the tool.
func (t tool) find() (string, bool) {
	if path, err := exec.LookPath(t.name); err == nil {
		return path, true
	}
	for _, dir := range t.dirs {
		if path, err := exec.LookPath(filepath.Join(dir, t.name)); err == nil {
			return path, true
		}
	}
	return "", false
}

// Bounds of what a tool may say.
const (
	maxOutput = 1 << 20
	maxSaid   = 200 // bytes of its complaint that are passed on
)

// output runs a tool and gives what it printed. A tool that outlives its time is
// killed. It may sit in the driver where no signal reaches it: then output goes on
// waiting, until it ends or ctx does.
func output(ctx context.Context, path string, args ...string) ([]byte, error) {
	limit, cancel := context.WithTimeout(ctx, toolTimeout)
	cmd := exec.CommandContext(limit, path, args...)
	var out, complaint bounded
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaint, time.Second
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- cmd.Run()
	}()
	select {
	case err := <-done:
		return out.result(err, limit, &complaint)
	case <-ctx.Done():
	}
	select { // it has been killed; most end at once
	case <-done:
	case <-time.After(cmd.WaitDelay):
	}
	return nil, ctx.Err()
}

func (b *bounded) result(err error, limit context.Context, complaint *bounded) ([]byte, error) {
	switch {
	case b.over:
		return nil, errTooMuch
	case err == nil:
		return b.kept.Bytes(), nil
	case errors.Is(limit.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("does not answer within %v", toolTimeout)
	}
	said := strings.Join(strings.Fields(complaint.kept.String()+" "+b.kept.String()), " ")
	if said == "" {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s", err, strings.ToValidUTF8(said[:min(len(said), maxSaid)], ""))
}

var errTooMuch = fmt.Errorf("prints more than %d bytes", maxOutput)

// bounded takes at most maxOutput bytes.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no bound
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > maxOutput-b.kept.Len() {
		b.over = true // the error closes the pipe, which ends the tool
		return 0, errTooMuch
	}
	return b.kept.Write(p)
}
