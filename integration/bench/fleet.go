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
	"slices"
	"strconv"
	"time"
)

// target is one way from the client to the engine.
type target struct {
	name  string
	url   string     // base URL
	procs []*process // whose CPU and memory count
}

// fleet is one simulated engine and everything in front of it.
type fleet struct {
	engine  *process
	url     string // of the engine
	targets []*target
	started []*process
	dir     string
}

// build makes the binary in dir and gives its path.
func build(ctx context.Context, dir string) (string, error) {
	out := filepath.Join(dir, "tokenbus")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "github.com/tokenbus/tokenbus/cmd/tokenbus")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build tokenbus: %w", err)
	}
	return out, nil
}

// startFleet starts an engine with those flags and the chosen targets, and waits
// until each of them answers. The caller stops it, on an error too.
func startFleet(ctx context.Context, o options, engine []string) (*fleet, error) {
	dir, err := os.MkdirTemp("", "tokenbus-bench")
	if err != nil {
		return nil, err
	}
	f := &fleet{dir: dir}
	addr, err := freeAddr()
	if err != nil {
		return f, err
	}
	args := append([]string{"sim", "--listen", addr, "--log-level", "warn", "--max-num-seqs", "2048"}, engine...)
	if f.engine, err = f.start("sim", o.binary, args...); err != nil {
		return f, err
	}
	f.url = "http://" + addr
	for _, name := range o.targets {
		t, err := f.addTarget(o, name)
		if err != nil {
			return f, err
		}
		f.targets = append(f.targets, t)
	}
	for _, t := range f.targets {
		if err := f.await(ctx, o, t); err != nil {
			return f, fmt.Errorf("%s does not get ready: %w", t.name, err)
		}
	}
	return f, nil
}

func (f *fleet) start(role, binary string, args ...string) (*process, error) {
	p, err := startProcess(f.dir, role, binary, args...)
	if err == nil {
		f.started = append(f.started, p)
	}
	return p, err
}

// addTarget starts the processes of a target.
func (f *fleet) addTarget(o options, name string) (*target, error) {
	switch name {
	case direct:
		return &target{name: name, url: f.url}, nil
	case tokenbus:
		return f.addTokenbus(o)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := f.start(name, self, "proxy", "-listen", addr, "-to", f.url, "-tuned="+strconv.FormatBool(name == tuned))
	if err != nil {
		return nil, err
	}
	return &target{name: name, url: "http://" + addr, procs: []*process{p}}, nil
}

// addTokenbus starts the four roles.
func (f *fleet) addTokenbus(o options) (*target, error) {
	busAddr, err1 := freeAddr()
	listen, err2 := freeAddr()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	own := map[string][]string{
		"bus":       {"--listen", busAddr, "--data", filepath.Join(f.dir, "jetstream"), "--name", "bench"},
		"gateway":   {"--listen", listen},
		"scheduler": {},
		"agent":     {"--id", "bench", "--engine-url", f.url, "--capacity", "4096"},
	}
	if o.separate {
		own["gateway"] = append(own["gateway"], "--no-local-scheduler")
	}
	t := &target{name: tokenbus, url: "http://" + listen}
	for _, role := range roles {
		admin, err := freeAddr()
		if err != nil {
			return nil, err
		}
		args := append([]string{role, "--log-level", "warn", "--admin-listen", admin}, own[role]...)
		if role != "bus" {
			args = append(args, "--nats", "nats://"+busAddr)
		}
		if n := o.procs[role]; n > 0 {
			args = append(args, "--procs", strconv.Itoa(n))
		}
		if o.profile != "" {
			args = append(args, "--pprof")
		}
		p, err := f.start(role, o.binary, args...)
		if err != nil {
			return nil, err
		}
		p.admin = "http://" + admin
		t.procs = append(t.procs, p)
	}
	return t, nil
}

// await waits until a target answers a request of each kind.
func (f *fleet) await(ctx context.Context, o options, t *target) error {
	client := &http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	return until(ctx, 20*time.Second, func() error {
		if err := f.alive(); err != nil {
			return err
		}
		for _, body := range [][]byte{chatBody(o, 2, false), chatBody(o, 2, true)} {
			resp, err := postChat(ctx, client, t.url, body)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, resp.Body)
			if err = errors.Join(err, resp.Body.Close()); err != nil {
				return err
			}
		}
		return nil
	})
}

// alive tells which process ended although it should not.
func (f *fleet) alive() error {
	var errs []error
	for _, p := range f.started {
		errs = append(errs, p.alive())
	}
	return errors.Join(errs...)
}

// stop stops all processes, the latest first.
func (f *fleet) stop() error {
	var errs []error
	for _, p := range slices.Backward(f.started) {
		errs = append(errs, p.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// used gives what each process of the target used so far.
func (t *target) used() ([]usage, error) {
	var all []usage
	for _, p := range t.procs {
		u, err := usageOf(p.pid())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.role, err)
		}
		all = append(all, u)
	}
	return all, nil
}
