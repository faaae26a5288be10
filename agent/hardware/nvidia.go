package hardware

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tokenbus/tokenbus/bus"
)

// nvidia is the tool that NVIDIA's driver brings. Memory is in MiB.
var nvidia = tool{
	name: "nvidia-smi",
	dirs: []string{"/usr/lib/wsl/lib"},
	args: []string{
		"--query-gpu=index,uuid,name,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw",
		"--format=csv,noheader,nounits",
	},
	parse: parseNvidia,
}

// parseNvidia reads one line a device. A field that the device does not have, or that
// can't be read now, is a word, often in brackets.
func parseNvidia(out []byte) ([]bus.GPU, error) {
	if text := strings.TrimSpace(string(out)); text == "" || strings.HasPrefix(text, "No devices were found") {
		return nil, nil
	}
	r := csv.NewReader(bytes.NewReader(out))
	r.FieldsPerRecord, r.TrimLeadingSpace, r.LazyQuotes = 8, true, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("prints what is no table of devices: %w", err)
	}
	var gpus []bus.GPU
	for _, row := range rows {
		index, err := strconv.Atoi(strings.TrimSpace(row[0]))
		if err != nil || index < 0 {
			return nil, fmt.Errorf("prints a device with the index %q", row[0])
		}
		gpus = append(gpus, bus.GPU{
			Index: index, ID: word(row[1]), Name: word(row[2]), UtilPercent: percent(row[3]),
			VRAMUsedBytes: bytesOf(row[4], 1<<20), VRAMTotalBytes: bytesOf(row[5], 1<<20),
			TemperatureC: number(row[6]), PowerWatts: positive(row[7]),
		})
	}
	return gpus, nil
}

// word is a text field, or nothing where the tool has none. Its length is bounded: it
// becomes a label.
func word(s string) string {
	s = strings.ToValidUTF8(strings.TrimSpace(s), "")
	if strings.HasPrefix(s, "[") || s == "N/A" || s == "ERR!" {
		return ""
	}
	return strings.ToValidUTF8(s[:min(len(s), 100)], "")
}

// number is a value, or nil where the field holds none.
func number(s string) *float64 {
	v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func positive(s string) *float64 {
	if v := number(s); v != nil && *v >= 0 {
		return v
	}
	return nil
}

func percent(s string) *float64 {
	if v := positive(s); v != nil && *v <= 100 {
		return v
	}
	return nil
}

// bytesOf is an amount of memory that the tool counts in units.
func bytesOf(s string, unit float64) *uint64 {
	v := positive(s)
	if v == nil || *v*unit >= 1<<62 {
		return nil
	}
	n := uint64(*v * unit)
	return &n
}
