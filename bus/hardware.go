package bus

// MaxGPUs bounds the GPUs that an agent tells of.
const MaxGPUs = 64

// Hardware is what an agent reads of its host. What could not be read is absent.
// Percentages are from 0 to 100.
type Hardware struct {
	AgeMS                int64    `json:"age_ms"` // of the oldest reading in it, when the agent said this
	GPUs                 []GPU    `json:"gpus,omitempty"`
	GPUError             string   `json:"gpu_error,omitempty"` // why GPUs, or some of those asked for, can't be read
	CPUUsagePercent      *float64 `json:"cpu_usage_percent,omitempty"`
	MemoryUsedPercent    *float64 `json:"memory_used_percent,omitempty"`
	MemoryAvailableBytes *uint64  `json:"memory_available_bytes,omitempty"`
	MemoryTotalBytes     *uint64  `json:"memory_total_bytes,omitempty"`
}

// GPU is one device, by the index and the id that the vendor's tool gives it.
type GPU struct {
	Index          int      `json:"index"`
	ID             string   `json:"id,omitempty"`
	Name           string   `json:"name,omitempty"`
	UtilPercent    *float64 `json:"util_percent,omitempty"`
	VRAMUsedBytes  *uint64  `json:"vram_used_bytes,omitempty"`
	VRAMTotalBytes *uint64  `json:"vram_total_bytes,omitempty"`
	TemperatureC   *float64 `json:"temperature_c,omitempty"`
	PowerWatts     *float64 `json:"power_watts,omitempty"`
}
