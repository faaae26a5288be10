package integration

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Imports go one way: cmd → gateway | schedule | agent → bus, and each outside
// dependency has its place (design.md §10).
func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "github.com/tokenbus/tokenbus/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/tokenbus/tokenbus/"
	// Which packages may import what starts with the key.
	allowed := map[string][]string{
		module + "gateway":                {"cmd"},
		module + "schedule":               {"cmd", "schedule"},
		module + "agent":                  {"cmd", "agent"},
		module + "cmd":                    {"cmd"},
		"github.com/nats-io/":             {"bus"},
		"github.com/labstack/echo":        {"gateway"},
		"github.com/alecthomas/kong":      {"cmd"},
		"go.yaml.in/yaml":                 {"cmd", "schedule/policy"}, // policy documents are its own format
		"github.com/prometheus/":          {"cmd", "gateway", "schedule", "agent"},
		module + "agent/sim":              {"cmd"},
		module + "schedule/policy":        {"cmd", "schedule"},
		module + "schedule/queue":         {"schedule"},
		"testing":                         {"bus/bustest"},
		"pgregory.net/rapid":              {},
		"github.com/openai/openai-go":     {},
		"github.com/anthropics/anthropic": {},
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "integration") || strings.HasPrefix(name, "docs") {
			continue
		}
		for _, imp := range p.Imports {
			for prefix, may := range allowed {
				if (imp == prefix || strings.HasPrefix(imp, prefix)) && !slices.ContainsFunc(may, func(m string) bool { return name == m || strings.HasPrefix(name, m+"/") }) {
					t.Errorf("%s imports %s; only %v may", name, imp, may)
				}
			}
		}
	}
}
