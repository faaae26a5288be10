// Package hardware reads what a host is doing: its GPUs by the tool of their vendor,
// nvidia-smi or rocm-smi, its processors and its memory.
//
// A value that can't be read is absent, never 0 (invariant 11). The tools run beside
// everything else: one that hangs in the driver holds up neither the agent nor its
// stop, and is not started a second time.
package hardware
