// Package bustest runs the real NATS server in tests: within a bubble of virtual
// time, without a socket, and with links that can be cut.
package bustest

import (
	"runtime"
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
	emptyPools()
	defer emptyPools()
	synctest.Test(t, f)
}

// emptyPools runs the garbage collector twice: once for a pool, once for what a
// pool keeps of the collection before.
func emptyPools() { runtime.GC(); runtime.GC() }
