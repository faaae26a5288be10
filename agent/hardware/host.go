package hardware

import (
	"context"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/tokenbus/tokenbus/bus"
)

// hostReader reads processors and memory.
type hostReader struct {
	busy, all float64 // seconds of all processors since the host started, at the last reading
}

// read gives what can be read. The use of the processors is that since the last
// reading, so the first gives none.
func (h *hostReader) read(ctx context.Context) (bus.Hardware, bool) {
	var r bus.Hardware
	if times, err := cpu.TimesWithContext(ctx, false); err == nil && len(times) == 1 {
		r.CPUUsagePercent = h.use(times[0])
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil && m.Total > 0 && m.Available <= m.Total {
		used := 100 * float64(m.Total-m.Available) / float64(m.Total)
		r.MemoryUsedPercent, r.MemoryAvailableBytes, r.MemoryTotalBytes = &used, &m.Available, &m.Total
	}
	return r, r.CPUUsagePercent != nil || r.MemoryTotalBytes != nil
}

// use is the share of the time since the last reading in which the processors worked.
// Time of guests is part of user time.
func (h *hostReader) use(t cpu.TimesStat) *float64 {
	busy := t.User + t.System + t.Nice + t.Irq + t.Softirq + t.Steal
	all := busy + t.Idle + t.Iowait
	b, a := busy-h.busy, all-h.all
	first := h.all == 0
	h.busy, h.all = busy, all
	if first || a <= 0 || b < 0 {
		return nil
	}
	p := min(100*b/a, 100)
	return &p
}
