package hardware

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenbus/tokenbus/bus"
)

// install puts a script in the place of a tool, alone on the search path but for the
// system's own commands.
func install(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func sampler(t *testing.T, gpus string) *Sampler {
	t.Helper()
	s, err := New(Config{Interval: time.Second, GPUs: gpus})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestReadGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		tool, script, gpus string
		want               int
		err                string
	}{
		"devices":             {"nvidia-smi", "cat " + abs(t, "nvidia-h100.txt"), "all", 2, ""},
		"one of them":         {"nvidia-smi", "cat " + abs(t, "nvidia-h100.txt"), "1", 1, ""},
		"one that is missing": {"nvidia-smi", "cat " + abs(t, "nvidia-h100.txt"), "5", 0, "--gpus names 5"},
		"of AMD":              {"rocm-smi", "cat " + abs(t, "rocm-mi300x.json"), "all", 3, ""},
		"a broken driver":     {"nvidia-smi", "echo 'NVIDIA-SMI has failed because it couldn'\\''t communicate with the NVIDIA driver.'; exit 9", "all", 0, "nvidia-smi: exit status 9: NVIDIA-SMI has failed"},
		"no words":            {"nvidia-smi", "exit 9", "all", 0, "nvidia-smi: exit status 9"},
		"endless":             {"nvidia-smi", "exec cat /dev/zero", "all", 0, "prints more than"},
		"garbage":             {"nvidia-smi", "echo hello", "all", 0, "prints what is no table"},
		"no device":           {"nvidia-smi", "echo 'No devices were found'", "all", 0, ""},
		"no tool":             {"other", "", "all", 0, "neither nvidia-smi nor rocm-smi is installed"},
		"no tool, named":      {"other", "", "0", 0, "--gpus names 0, but neither"},
	} {
		t.Run(name, func(t *testing.T) {
			install(t, c.tool, c.script)
			got, err := sampler(t, c.gpus).readGPUs(t.Context())
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if len(got) != c.want {
				t.Errorf("devices %+v, want %d", got, c.want)
			}
		})
	}
}

func abs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHungTool: a tool that never ends holds up neither processors and memory nor the
// stop, and is not started twice.
func TestHungTool(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	install(t, "nvidia-smi", fmt.Sprintf("echo x >> %s; exec sleep 100", starts))
	s, err := New(Config{Interval: MinInterval})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	deadline := time.After(20 * time.Second)
	for h := s.Latest(); h == nil || h.CPUUsagePercent == nil; h = s.Latest() {
		select {
		case <-deadline:
			t.Fatalf("processors are not read: %+v", h)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if h := s.Latest(); h.GPUs != nil || h.MemoryTotalBytes == nil || *h.MemoryTotalBytes == 0 {
		t.Errorf("got %+v", h)
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the sampler does not stop")
	}
	if b, err := os.ReadFile(starts); err != nil || string(b) != "x\n" {
		t.Errorf("starts: %q, %v", b, err)
	}
}

// TestLatest: what is old is missing, each source by itself.
func TestLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sampler(t, "all")
		if h := s.Latest(); h != nil {
			t.Fatalf("before the first reading: %+v", h)
		}
		s.gpus = reading{time.Now(), bus.Hardware{GPUs: []bus.GPU{{Index: 3}}}}
		time.Sleep(10 * time.Second)
		s.cpu = reading{time.Now(), bus.Hardware{CPUUsagePercent: ptr(12.5)}}
		time.Sleep(time.Second)
		check := func(want *bus.Hardware) {
			t.Helper()
			if d := cmp.Diff(want, s.Latest()); d != "" {
				t.Errorf("want -, got +:\n%s", d)
			}
		}
		check(&bus.Hardware{AgeMS: 11000, GPUs: []bus.GPU{{Index: 3}}, CPUUsagePercent: ptr(12.5)})
		time.Sleep(FreshFor - 10*time.Second)
		check(&bus.Hardware{AgeMS: 6000, CPUUsagePercent: ptr(12.5)})
		time.Sleep(FreshFor)
		check(nil)
	})
}

// TestOff: a sampler that reads nothing says nothing.
func TestOff(t *testing.T) {
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx); err != nil || s.Latest() != nil {
		t.Errorf("%v, %+v", err, s.Latest())
	}
	if err := (Config{Interval: time.Minute}).Validate(); err == nil || !strings.Contains(err.Error(), "--hardware-interval") {
		t.Errorf("a minute between two readings: %v", err)
	}
}
