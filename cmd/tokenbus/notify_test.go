package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// manager is a socket like that of a service manager.
func manager(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return c
}

// hears waits for a word of the process.
func hears(t *testing.T, c *net.UnixConn, want string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var b [256]byte
	n, err := c.Read(b[:])
	if err != nil || string(b[:n]) != want {
		t.Fatalf("the service manager hears %q, %v; want %q", b[:n], err, want)
	}
}

// TestNotify: a process says that it is ready, that it lives and that it stops, in
// this order, on a named socket and on an abstract one.
func TestNotify(t *testing.T) {
	for name, path := range map[string]string{"named": filepath.Join(t.TempDir(), "s"), "abstract": "@tokenbus-test-" + strconv.Itoa(os.Getpid())} {
		t.Run(name, func(t *testing.T) {
			if name == "abstract" && runtime.GOOS != "linux" {
				t.Skip("abstract sockets are Linux's")
			}
			c := manager(t, path)
			t.Setenv("WATCHDOG_USEC", "20000")
			t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
			p := newParts()
			var looks atomic.Int64
			p.look = func() { looks.Add(1) }
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.wait(ctx) }()
			hears(t, c, "READY=1")
			for range 3 {
				hears(t, c, "WATCHDOG=1")
			}
			if looks.Load() < 3 {
				t.Errorf("%d looks for three words", looks.Load())
			}
			cancel()
			for heard := ""; heard != "STOPPING=1"; {
				var b [64]byte
				n, err := c.Read(b[:])
				if err != nil {
					t.Fatal(err)
				}
				heard = string(b[:n])
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNotifyHangs: a process whose state can't be read any more is silent.
func TestNotifyHangs(t *testing.T) {
	c := manager(t, filepath.Join(t.TempDir(), "s"))
	t.Setenv("WATCHDOG_USEC", "1000")
	t.Setenv("WATCHDOG_PID", "")
	p := &parts{}
	hang := make(chan struct{})
	looked := make(chan struct{})
	p.look = sync.OnceFunc(func() {
		close(looked)
		<-hang
	})
	stop := p.watchdog()
	<-looked
	p.tell("probe") // it is the first word: nothing was said before
	hears(t, c, "probe")
	close(hang)
	hears(t, c, "WATCHDOG=1")
	stop()
}

// TestNotifyAlone: without a service manager nothing is said, and a socket that is
// gone is a warning, not the end.
func TestNotifyAlone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notify(notifyReady); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	var warned error
	p := &parts{warn: func(err error) { warned = err }}
	p.tell(notifyReady)
	if warned == nil {
		t.Error("no warning")
	}
	for pid, usec := range map[string]string{"1": "1000000", "": "x", strconv.Itoa(os.Getpid()): "-5"} {
		t.Setenv("WATCHDOG_PID", pid)
		t.Setenv("WATCHDOG_USEC", usec)
		if d := watchdogEvery(); d != 0 {
			t.Errorf("WATCHDOG_PID=%s WATCHDOG_USEC=%s: every %v", pid, usec, d)
		}
	}
}
