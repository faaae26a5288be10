package hardware

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tokenbus/tokenbus/bus"
)

// rocm is the tool that AMD's ROCm brings. Memory is in bytes.
var rocm = tool{
	name:  "rocm-smi",
	dirs:  []string{"/opt/rocm/bin"},
	args:  []string{"--showuse", "--showmeminfo", "vram", "--showtemp", "--showpower", "--showproductname", "--showuniqueid", "--json"},
	parse: parseROCm,
}

// The names of what is read, which differ between versions and devices; the first
// that is there counts.
var (
	rocmTemperature = []string{"Temperature (Sensor junction) (C)", "Temperature (Sensor edge) (C)", "Temperature (Sensor memory) (C)"}
	rocmPower       = []string{"Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"}
	rocmName        = []string{"Card Series", "Card series", "Card SKU", "GFX Version"}
	rocmID          = []string{"Unique ID"}
)

// parseROCm reads one object of fields a device: card0, card1, …. Warnings may stand
// before the object.
func parseROCm(out []byte) ([]bus.GPU, error) {
	if i := bytes.IndexByte(out, '{'); i > 0 {
		out = out[i:]
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	var doc map[string]map[string]any
	if err := json.Unmarshal(out, &doc); err != nil {
		return nil, fmt.Errorf("prints what is no object of devices: %w", err)
	}
	var gpus []bus.GPU
	for card, fields := range doc {
		digits, ok := strings.CutPrefix(card, "card")
		index, err := strconv.Atoi(digits)
		if !ok || err != nil || index < 0 {
			continue // "system" is another
		}
		first := func(names ...string) string {
			for _, n := range names {
				if v, ok := fields[n]; ok {
					if s := word(fmt.Sprint(v)); s != "" {
						return s
					}
				}
			}
			return ""
		}
		gpus = append(gpus, bus.GPU{
			Index: index, ID: first(rocmID...), Name: first(rocmName...), UtilPercent: percent(first("GPU use (%)")),
			VRAMUsedBytes: bytesOf(first("VRAM Total Used Memory (B)"), 1), VRAMTotalBytes: bytesOf(first("VRAM Total Memory (B)"), 1),
			TemperatureC: number(first(rocmTemperature...)), PowerWatts: positive(first(rocmPower...)),
		})
	}
	slices.SortFunc(gpus, func(a, b bus.GPU) int { return a.Index - b.Index })
	return gpus, nil
}
