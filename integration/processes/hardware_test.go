package processes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGPUs: an operator sees what the vendor's tool says of the GPUs beside an agent,
// and when it fails, that it fails, and no zeros.
func TestGPUs(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "nvidia-smi")
	says := func(script string) {
		t.Helper()
		next := tool + ".next"
		if err := os.WriteFile(next, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, tool); err != nil {
			t.Fatal(err)
		}
	}
	says(`echo "0, GPU-1, NVIDIA H100, 97, 40960, 81920, 64, 612.5"; echo "1, GPU-2, NVIDIA H100, [N/A], 1024, 81920, 31, 71"`)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	f := newFleet(t)
	f.engine("gpu", "m")
	admin := freePort(t)
	f.agent("gpu", "--hardware-interval", "200ms", "--admin-listen", admin)
	shown := func() string {
		out, _ := run(t, "agents", "gpu", "--nats", f.nats)
		return out
	}
	eventually(t, 20*time.Second, "the GPUs are shown", func() bool {
		return strings.Contains(shown(), "0: NVIDIA H100, 97% busy, 40.0 of 80.0 GiB, 64 °C, 612 W")
	})
	if out := shown(); !strings.Contains(out, "1: NVIDIA H100, 1.0 of 80.0 GiB, 31 °C, 71 W") || !strings.Contains(out, "processors") {
		t.Errorf("tokenbus agents gpu prints\n%s", out)
	}
	metrics := func() string { return get("http://" + admin + "/metrics") }
	for _, want := range []string{
		`tokenbus_agent_gpu_info{agent="gpu",gpu="0",gpu_id="GPU-1",gpu_name="NVIDIA H100"} 1`,
		`tokenbus_agent_gpu_utilization_ratio{agent="gpu",gpu="0"} 0.97`,
		`tokenbus_agent_host_memory_total_bytes{agent="gpu"}`,
		`gpu_model="NVIDIA H100"`,
	} {
		if !strings.Contains(metrics(), want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if strings.Contains(metrics(), `tokenbus_agent_gpu_utilization_ratio{agent="gpu",gpu="1"}`) {
		t.Error("/metrics shows a value that was not read (invariant 11)")
	}
	says(`echo "couldn't communicate with the NVIDIA driver"; exit 9`)
	eventually(t, 20*time.Second, "the failure is a warning", func() bool {
		for _, w := range look(t, f.nats).Warnings {
			if w.Code == "gpus_unread" && w.Subject == "gpu" && strings.Contains(w.Text, "NVIDIA driver") {
				return true
			}
		}
		return false
	})
	if strings.Contains(metrics(), "tokenbus_agent_gpu_utilization_ratio{") {
		t.Error("/metrics shows GPUs that can't be read (invariant 11)")
	}
}
