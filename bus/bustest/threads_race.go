//go:build race

package bustest

import "runtime"

// oneThread makes the bubble run on one thread. The race detector itself crashes
// now and then when timers of a bubble fire on two at once (Go issue 78156); races
// are still found, since it follows the order of events and not the clock.
func oneThread() (restore func()) {
	n := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(n) }
}
