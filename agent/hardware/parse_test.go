package hardware

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tokenbus/tokenbus/bus"
)

func ptr[T any](v T) *T { return &v }

func recorded(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const mib = 1 << 20

func TestParseNvidia(t *testing.T) {
	for name, c := range map[string]struct {
		out  string
		want []bus.GPU
	}{
		"two devices": {string(recorded(t, "nvidia-h100.txt")), []bus.GPU{
			{Index: 0, ID: "GPU-6d1f9a3c-8b2e-4a77-9c51-0a4de2f3b801", Name: "NVIDIA H100 80GB HBM3", UtilPercent: ptr(97.0), VRAMUsedBytes: ptr[uint64](74213 * mib), VRAMTotalBytes: ptr[uint64](81559 * mib), TemperatureC: ptr(64.0), PowerWatts: ptr(612.47)},
			{Index: 1, ID: "GPU-6d1f9a3c-8b2e-4a77-9c51-0a4de2f3b802", Name: "NVIDIA H100 80GB HBM3", UtilPercent: ptr(3.0), VRAMUsedBytes: ptr[uint64](512 * mib), VRAMTotalBytes: ptr[uint64](81559 * mib), TemperatureC: ptr(31.0), PowerWatts: ptr(71.02)},
		}},
		"what can't be read is absent (invariant 11)": {string(recorded(t, "nvidia-partly.txt")), []bus.GPU{
			{Index: 0, ID: "GPU-11112222-3333-4444-5555-666677778888", Name: "NVIDIA GB10", UtilPercent: ptr(12.0), TemperatureC: ptr(43.0), PowerWatts: ptr(11.3)},
			{Index: 1, ID: "GPU-11112222-3333-4444-5555-666677778889", Name: "NVIDIA A100-SXM4-40GB", VRAMUsedBytes: ptr[uint64](1024 * mib), VRAMTotalBytes: ptr[uint64](40960 * mib), TemperatureC: ptr(38.0)},
			{Index: 2, ID: "GPU-11112222-3333-4444-5555-66667777888a", Name: "Tesla K80", VRAMTotalBytes: ptr[uint64](11441 * mib)},
		}},
		"none":            {"No devices were found\n", nil},
		"nothing":         {"", nil},
		"values too big":  {"0, a, b, 101, -1, 1e300, NaN, -3\n", []bus.GPU{{ID: "a", Name: "b"}}},
		"not a byte more": {"7,a,b,1,1,1,-5,1", []bus.GPU{{Index: 7, ID: "a", Name: "b", UtilPercent: ptr(1.0), VRAMUsedBytes: ptr[uint64](mib), VRAMTotalBytes: ptr[uint64](mib), TemperatureC: ptr(-5.0), PowerWatts: ptr(1.0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseNvidia([]byte(c.out))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("want -, got +:\n%s", d)
			}
		})
	}
	for _, out := range []string{"Failed to initialize NVML: Driver/library version mismatch\n", "x, a, b, 1, 1, 1, 1, 1\n", "-1, a, b, 1, 1, 1, 1, 1\n", "0, a\n"} {
		if got, err := parseNvidia([]byte(out)); err == nil {
			t.Errorf("%q gives %v", out, got)
		}
	}
}

func TestParseROCm(t *testing.T) {
	got, err := parseROCm(recorded(t, "rocm-mi300x.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []bus.GPU{
		{Index: 0, ID: "0x9a1c2b3d4e5f6071", Name: "AMD Instinct MI300X", UtilPercent: ptr(88.0), VRAMUsedBytes: ptr[uint64](150000000000), VRAMTotalBytes: ptr[uint64](206141652992), TemperatureC: ptr(57.0), PowerWatts: ptr(402.0)},
		{Index: 2},
		{Index: 10, Name: "AMD Instinct MI210", UtilPercent: ptr(0.0), VRAMTotalBytes: ptr[uint64](68702699520), TemperatureC: ptr(41.0), PowerWatts: ptr(35.5)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want -, got +:\n%s", d)
	}
	for out, fails := range map[string]bool{"": false, "{}": false, "ERROR: no driver": true, "{": true, "[]": true, `{"card0": 3}`: true} {
		if got, err := parseROCm([]byte(out)); (err != nil) != fails || len(got) > 0 {
			t.Errorf("%q: %v, %v", out, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"nvidia-h100.txt", "nvidia-partly.txt", "rocm-mi300x.json"} {
		f.Add(recorded(f, name))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, parse := range []func([]byte) ([]bus.GPU, error){parseNvidia, parseROCm} {
			gpus, err := parse(out)
			if err != nil && len(gpus) > 0 {
				t.Error("devices and an error")
			}
			for _, g := range gpus {
				if p := g.UtilPercent; p != nil && !(*p >= 0 && *p <= 100) {
					t.Errorf("%v %% busy", *p)
				}
				if g.Index < 0 || len(g.ID) > 100 || len(g.Name) > 100 {
					t.Errorf("%+v", g)
				}
			}
		}
	})
}

func TestFilter(t *testing.T) {
	gpus := []bus.GPU{{Index: 0, ID: "GPU-a"}, {Index: 1, ID: "GPU-b"}, {Index: 2}}
	for text, c := range map[string]struct {
		want []int
		err  string
	}{
		"":                {want: []int{0, 1, 2}},
		" all ":           {want: []int{0, 1, 2}},
		"1":               {want: []int{1}},
		"2, gpu-A":        {want: []int{0, 2}},
		"gpu-b,1":         {want: []int{1}},
		"0,7,gpu-missing": {want: []int{0}, err: "--gpus names 7, gpu-missing, which this host does not have"},
	} {
		f, err := parseFilter(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := f.apply(gpus)
		var index []int
		for _, g := range got {
			index = append(index, g.Index)
		}
		said := ""
		if err != nil {
			said = err.Error()
		}
		if !cmp.Equal(index, c.want) || said != c.err {
			t.Errorf("%q gives %v, %q; want %v, %q", text, index, said, c.want, c.err)
		}
	}
	for _, text := range []string{"0,", ",", "all,1", "none,1", "1,1", strings.Repeat("x,", 64) + "y"} {
		if err := (Config{GPUs: text}).Validate(); err == nil || !strings.Contains(err.Error(), "--gpus") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
