// Package bustest runs the real NATS server in tests: within a bubble of virtual
// time, without a socket, and with links that can be cut.
package bustest

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// Bubble runs f in virtual time (testing/synctest). When f returns, every
// goroutine that it started must end, so each bubble is a leak test too.
//
// nats.go keeps a pool of timers for the whole process; a timer must not cross a
// bubble's edge, so the pool is emptied on both sides.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer oneThread()()
	emptyPools()
	defer emptyPools()
	defer func() {
		if r := recover(); r != nil {
			// The panic of a bubble with goroutines left does not name them.
			t.Logf("goroutines left:\n%s", leaked())
			panic(r)
		}
	}()
	synctest.Test(t, f)
}

// leaked gives the stacks of the goroutines within bubbles.
func leaked() string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var out []string
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if first, _, _ := strings.Cut(g, "\n"); strings.Contains(first, "synctest bubble") {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

// emptyPools runs the garbage collector twice: once for a pool, once for what a
// pool keeps of the collection before.
func emptyPools() { runtime.GC(); runtime.GC() }
