package agent

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbus/tokenbus/bus"
)

var (
	descGPU       = desc("gpu_info", "Always 1; one for each GPU.", "gpu", "gpu_id", "gpu_name")
	descGPUUse    = desc("gpu_utilization_ratio", "Share of the time in which the GPU worked.", "gpu")
	descVRAMUsed  = desc("gpu_memory_used_bytes", "Memory of the GPU in use.", "gpu")
	descVRAM      = desc("gpu_memory_total_bytes", "Memory of the GPU.", "gpu")
	descGPUTemp   = desc("gpu_temperature_celsius", "Temperature of the GPU.", "gpu")
	descGPUPower  = desc("gpu_power_watts", "Power that the GPU draws.", "gpu")
	descCPUUse    = desc("host_cpu_utilization_ratio", "Share of the time in which the processors of the host worked.")
	descMemUse    = desc("host_memory_utilization_ratio", "Share of the host's memory in use.")
	descMemFree   = desc("host_memory_available_bytes", "Memory of the host that can be had without swapping.")
	descMem       = desc("host_memory_total_bytes", "Memory of the host.")
	descHardware  = desc("hardware_age_seconds", "Age of the oldest reading of the hardware that is shown.")
	hardwareDescs = []*prometheus.Desc{
		descGPU, descGPUUse, descVRAMUsed, descVRAM, descGPUTemp, descGPUPower, descCPUUse, descMemUse, descMemFree, descMem, descHardware,
	}
)

func describeHardware(ch chan<- *prometheus.Desc) {
	for _, d := range hardwareDescs {
		ch <- d
	}
}

// collectHardware shows what was read; what was not is absent (invariant 11).
func collectHardware(gauge func(*prometheus.Desc, float64, ...string), h *bus.Hardware, since time.Duration) {
	ratio := func(d *prometheus.Desc, percent *float64, labels ...string) {
		if percent != nil {
			gauge(d, *percent/100, labels...)
		}
	}
	number := func(d *prometheus.Desc, v *float64, labels ...string) {
		if v != nil {
			gauge(d, *v, labels...)
		}
	}
	size := func(d *prometheus.Desc, n *uint64, labels ...string) {
		if n != nil {
			gauge(d, float64(*n), labels...)
		}
	}
	shown := make(map[int]bool)
	for _, g := range h.GPUs[:min(len(h.GPUs), bus.MaxGPUs)] {
		if shown[g.Index] {
			continue
		}
		shown[g.Index] = true
		index := strconv.Itoa(g.Index)
		gauge(descGPU, 1, index, clean(g.ID), clean(g.Name))
		ratio(descGPUUse, g.UtilPercent, index)
		size(descVRAMUsed, g.VRAMUsedBytes, index)
		size(descVRAM, g.VRAMTotalBytes, index)
		number(descGPUTemp, g.TemperatureC, index)
		number(descGPUPower, g.PowerWatts, index)
	}
	ratio(descCPUUse, h.CPUUsagePercent)
	ratio(descMemUse, h.MemoryUsedPercent)
	size(descMemFree, h.MemoryAvailableBytes)
	size(descMem, h.MemoryTotalBytes)
	gauge(descHardware, (time.Duration(h.AgeMS)*time.Millisecond + max(since, 0)).Seconds())
}
