package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// tie lets the kernel end a child with the benchmark, however that ends. It counts
// the thread that started the child, so main keeps its thread.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// cpuTime gives the user and system time of a process so far. It reads the process's
// CPU clock, whose id is made of the process id as in clock_getcpuclockid(3); the
// figures of /proc come in ticks of 10 ms.
func cpuTime(pid int) (time.Duration, error) {
	const schedClock = 2
	var ts syscall.Timespec
	id := int32(^pid)<<3 | schedClock
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, errno)
	}
	return time.Duration(ts.Nano()), nil
}

// usageOf reads what a process used. Threads that ended take their context switches
// with them; Go programs hardly end threads.
func usageOf(pid int) (usage, error) {
	cpu, err := cpuTime(pid)
	if err != nil {
		return usage{}, err
	}
	u := usage{cpu: cpu}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return u, err
	}
	for _, file := range threads {
		f, err := fields(file)
		if err != nil {
			continue // the thread ended
		}
		u.switches += f["voluntary_ctxt_switches"]
	}
	return u, nil
}

// memoryOf reads the memory of a process.
func memoryOf(pid int) (memory, error) {
	f, err := fields(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	return memory{resident: f["Rss"] * 1024, anonymous: f["Anonymous"] * 1024}, err
}

// fields reads the numbers of a file of lines "name: number", with or without kB.
func fields(file string) (map[string]float64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); err == nil {
			all[name] = n
		}
	}
	return all, nil
}
