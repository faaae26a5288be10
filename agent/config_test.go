package agent

import (
	"strings"
	"testing"
	"time"
)

// Looks at the metrics are off, or frequent enough that their numbers are not stale.
func TestMetricsInterval(t *testing.T) {
	for d, ok := range map[time.Duration]bool{
		0: true, time.Second: true, minMetricsInterval: true, maxMetricsInterval: true,
		-1: false, time.Millisecond: false, signalsFor: false,
	} {
		c := Default()
		c.ID, c.EngineURL, c.MetricsInterval = "a", "http://engine", d
		err := c.Validate()
		if (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "--metrics-interval: ") {
			t.Errorf("%v: %v", d, err)
		}
	}
}
