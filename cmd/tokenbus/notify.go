package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// The messages to the service manager (sd_notify(3)).
const (
	notifyReady    = "READY=1"
	notifyStopping = "STOPPING=1"
	notifyWatchdog = "WATCHDOG=1"
)

// notify tells a service manager of type systemd how the process is, over the datagram
// socket that NOTIFY_SOCKET names. Without one it does nothing.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	// A name that begins with @ is one of Linux's abstract sockets; net knows it.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager %s: %w", state, err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("tell the service manager %s: %w", state, err)
	}
	return nil
}

// watchdogEvery is how often the service manager wants to hear of the process: half of
// WATCHDOG_USEC, as sd_watchdog_enabled(3) advises; 0 is never.
func watchdogEvery() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond / 2
}

// tell tells the service manager, if there is one. A process that can't is none the
// worse for its callers.
func (p *parts) tell(state string) {
	if err := notify(state); err != nil && p.warn != nil {
		p.warn(err)
	}
}

// watchdog says that the process lives until stop is called, if the service manager
// wants to hear it. It looks before each word: a look that never returns, because the
// state that it reads is locked for good, is silence, and the service manager starts
// the process anew.
func (p *parts) watchdog() (stop func()) {
	every := watchdogEvery()
	if every == 0 {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(every)
		defer t.Stop()
		for {
			if p.look != nil {
				p.look()
			}
			p.tell(notifyWatchdog)
			select {
			case <-done:
				return
			case <-t.C:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
