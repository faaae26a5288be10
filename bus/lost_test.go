package bus_test

import (
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// TestBusNeverBack: a stream whose bus does not come back ends with an error, once
// nobody can have its bytes any more; its reader is not left waiting for ever
// (invariants 6 and 10).
func TestBusNeverBack(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, stream(pattern(20<<10), 100, 20*time.Millisecond))
		defer w.stop()
		call := w.start(t.Context(), nil)
		time.Sleep(time.Second)
		began := time.Now()
		w.bus.Stop()
		_, err := drain(call)
		checkReason(t, err, bus.ReasonBusUnavailable)
		checkBetween(t, "ended", time.Since(began), bus.ForgetAfter-time.Second, bus.ForgetAfter+time.Second)
		call.Close()
	})
}
