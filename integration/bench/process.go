package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a child of the benchmark.
type process struct {
	role  string
	admin string // base URL of the operator side, if it has one
	cmd   *exec.Cmd
	log   string // file of its standard error
	ended chan error
}

// usage is what a process used since it started.
type usage struct {
	cpu      time.Duration
	switches float64 // context switches in which a thread went to sleep
}

// memory is the memory of a process, in bytes.
type memory struct{ resident, anonymous float64 }

// startProcess starts a child whose standard error goes to a file in dir.
func startProcess(dir, role, binary string, args ...string) (*process, error) {
	p := &process{role: role, log: filepath.Join(dir, role+".log"), ended: make(chan error, 1)}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stderr = log
	tie(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// alive tells whether the process still runs, and what it said if not.
func (p *process) alive() error {
	select {
	case err := <-p.ended:
		p.ended <- err
		return fmt.Errorf("%s ended by itself (%v): %s", p.role, err, p.tail())
	default:
		return nil
	}
}

// tail is the end of what the process wrote to its standard error.
func (p *process) tail() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

// stop tells the process to end, and ends it if it does not.
func (p *process) stop() error {
	err := p.alive()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.ended:
		return err
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return errors.Join(err, fmt.Errorf("%s did not end within 10 seconds of SIGTERM: %s", p.role, p.tail()))
	}
}

// freeAddr gives a loopback address whose port was free a moment ago. It is below the
// ports that the kernel gives to outgoing connections, which take many here.
func freeAddr() (string, error) {
	const first, many = 20_000, 10_000
	var last error
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(many)))
		if err != nil {
			last = err
			continue
		}
		return l.Addr().String(), l.Close()
	}
	return "", fmt.Errorf("find a free port: %w", last)
}

// until calls f until it gives no error, for up to so long.
func until(ctx context.Context, most time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
