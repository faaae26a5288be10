package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// parts are what a process runs, in the order in which it was started. It stops in
// the reverse order, each part before the next: a gateway drains while the bus
// below it still works.
type parts struct {
	look func()      // reads the state of what runs; nil if nothing has one
	warn func(error) // of what does not stop the process; nil: nobody hears it

	mu     sync.Mutex
	stack  []part
	failed chan error
}

type part struct {
	name string
	stop func() error
}

func newParts() *parts {
	p := &parts{failed: make(chan error, 1)}
	p.start("memory", trim)
	return p
}

// start runs a part on its own goroutine until its context ends. A part that ends
// by itself with an error ends the process.
func (p *parts) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := run(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			select {
			case p.failed <- err:
			default:
			}
		}
		done <- err
	}()
	p.push(part{name, func() error {
		cancel()
		return <-done
	}})
}

// onStop adds a step of stopping.
func (p *parts) onStop(name string, f func()) {
	p.push(part{name, func() error { f(); return nil }})
}

func (p *parts) push(x part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stack = append(p.stack, x)
}

// wait blocks until ctx ends or a part fails, and then stops all of them. It tells the
// service manager that all have started, that they live, and that they stop.
func (p *parts) wait(ctx context.Context) error {
	p.tell(notifyReady)
	stop := p.watchdog() // to the end: a gateway may drain for long
	defer stop()
	var first error
	select {
	case <-ctx.Done():
	case first = <-p.failed:
	}
	p.tell(notifyStopping)
	return p.stop(first)
}

// stop stops all parts. It is for a start that failed half-way, too.
func (p *parts) stop(first error) error {
	p.mu.Lock()
	stack := p.stack
	p.stack = nil
	p.mu.Unlock()
	errs := []error{first}
	for i := len(stack) - 1; i >= 0; i-- {
		if err := stack[i].stop(); err != nil && (first == nil || err.Error() != first.Error()) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
