//go:build !race

package bustest

// oneThread does nothing without the race detector.
func oneThread() (restore func()) { return func() {} }
