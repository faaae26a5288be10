package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v4"
)

const chart = "../../deploy/helm/tokenbus"

// TestHelm: the chart renders, for the values that people set, to YAML whose commands
// are ours and whose parts fit together.
func TestHelm(t *testing.T) {
	agents := []any{
		map[string]any{"id": "a", "engineURL": "http://vllm:8000"},
		map[string]any{"id": "b", "engineURL": "https://vllm-b:8000", "capacity": 8, "region": "eu", "tags": []any{"x", "y"}, "gpuModel": "H100", "engineKeySecret": "k"},
	}
	for name, c := range map[string]struct {
		set  map[string]any
		want map[string]int // documents by kind
	}{
		"defaults": {nil, map[string]int{"StatefulSet": 1, "Deployment": 2, "Service": 3, "ConfigMap": 1, "NetworkPolicy": 3, "PodDisruptionBudget": 3}},
		"agents and monitoring": {
			map[string]any{"agents": agents, "simulations": 2, "metrics": map[string]any{"podMonitor": true, "rules": true}},
			map[string]int{"Deployment": 6, "PodMonitor": 1, "PrometheusRule": 1},
		},
		"one server":     {map[string]any{"bus": map[string]any{"replicas": 1}}, map[string]int{"StatefulSet": 1}},
		"bus elsewhere":  {map[string]any{"bus": map[string]any{"enabled": false, "url": "nats://x:4222"}}, map[string]int{"StatefulSet": 0, "ConfigMap": 0}},
		"without policy": {map[string]any{"networkPolicy": map[string]any{"enabled": false}}, map[string]int{"NetworkPolicy": 0}},
		"placed": {map[string]any{
			"tolerations": []any{map[string]any{"key": "gpu", "operator": "Exists"}}, "nodeSelector": map[string]any{"disk": "ssd"},
			"imagePullSecrets": []any{map[string]any{"name": "pull"}}, "podAnnotations": map[string]any{"a": "b"},
			"networkPolicy": map[string]any{
				"clients":    []any{map[string]any{"podSelector": map[string]any{"matchLabels": map[string]any{"app": "x"}}}},
				"monitoring": []any{map[string]any{"namespaceSelector": map[string]any{}}},
			},
		}, map[string]int{"Deployment": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			values := chartValues(t, c.set)
			if problems := checkSchema(schema(t), values, "values"); len(problems) > 0 {
				t.Fatal(problems)
			}
			docs, err := renderChart(t, values)
			if err != nil {
				t.Fatal(err)
			}
			kinds := make(map[string]int)
			for _, d := range docs {
				kinds[fmt.Sprint(d["kind"])]++
			}
			for kind, n := range c.want {
				if kinds[kind] != n {
					t.Errorf("%d of %s, want %d: %v", kinds[kind], kind, n, kinds)
				}
			}
			checkObjects(t, docs)
		})
	}
	t.Run("what is missing is said", func(t *testing.T) {
		_, err := renderChart(t, chartValues(t, map[string]any{"bus": map[string]any{"enabled": false}}))
		if err == nil || !strings.Contains(err.Error(), "bus.url is needed") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("rules", func(t *testing.T) {
		ours, err1 := os.ReadFile("../../deploy/prometheus/tokenbus.rules.yml")
		copied, err2 := os.ReadFile(chart + "/files/tokenbus.rules.yml")
		if err1 != nil || err2 != nil || !bytes.Equal(ours, copied) {
			t.Errorf("files/tokenbus.rules.yml is not deploy/prometheus/tokenbus.rules.yml: %v, %v", err1, err2)
		}
	})
}

// chartValues are the values of the chart with some of them set, as Helm merges them.
func chartValues(t *testing.T, set map[string]any) map[string]any {
	t.Helper()
	var values map[string]any
	readYAML(t, chart+"/values.yaml", &values)
	merge(values, set)
	return values
}

func merge(into, from map[string]any) {
	for k, v := range from {
		if m, ok := v.(map[string]any); ok {
			if old, ok := into[k].(map[string]any); ok {
				merge(old, m)
				continue
			}
		}
		into[k] = v
	}
}

// renderChart renders all templates as Helm does, with the few of its functions that
// they use, and parses what comes out.
func renderChart(t *testing.T, values map[string]any) ([]map[string]any, error) {
	t.Helper()
	root := template.New("chart").Option("missingkey=zero")
	indent := func(n int, s string) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
	}
	root.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := root.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			b, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(b), "\n"), err
		},
		"nindent": func(n int, s string) string { return "\n" + indent(n, s) },
		"quote":   func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"default": func(d, v any) any {
			if v == nil || reflect.ValueOf(v).IsZero() {
				return d
			}
			return v
		},
		"required": func(message string, v any) (any, error) {
			if v == nil || v == "" {
				return nil, fmt.Errorf("%s", message)
			}
			return v, nil
		},
		"trunc":      func(n int, s string) string { return s[:min(n, len(s))] },
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"int":        func(v any) int { return int(number(v)) },
		"add":        func(a, b int) int { return a + b },
		"until": func(n int) []int {
			return slices.Collect(func(yield func(int) bool) {
				for i := range n {
					if !yield(i) {
						return
					}
				}
			})
		},
	})
	err := filepath.WalkDir(chart+"/templates", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			_, err = root.New(filepath.Base(path)).Parse(string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var about map[string]any
	readYAML(t, chart+"/Chart.yaml", &about)
	data := map[string]any{
		"Values":  values,
		"Release": map[string]any{"Name": "test", "Namespace": "default", "Service": "Helm"},
		"Chart":   map[string]any{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Files":   chartFiles{},
	}
	var docs []map[string]any
	for _, tmpl := range root.Templates() {
		switch filepath.Ext(tmpl.Name()) {
		case ".yaml", ".txt":
		default:
			continue
		}
		var b bytes.Buffer
		if err := tmpl.Execute(&b, data); err != nil {
			return nil, err
		}
		if strings.Contains(b.String(), "<no value>") {
			return nil, fmt.Errorf("%s uses a value that does not exist:\n%s", tmpl.Name(), b.String())
		}
		if filepath.Ext(tmpl.Name()) == ".txt" {
			continue
		}
		for d := yaml.NewDecoder(&b); ; {
			var doc map[string]any
			if err := d.Decode(&doc); err != nil {
				if err.Error() == "EOF" {
					break
				}
				return nil, fmt.Errorf("%s: %w", tmpl.Name(), err)
			}
			if doc != nil {
				docs = append(docs, doc)
			}
		}
	}
	return docs, nil
}

type chartFiles struct{}

// Get is Helm's .Files.Get.
func (chartFiles) Get(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(chart, name))
	return string(b), err
}

// at walks along keys.
func at(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

func list(v any) []any { l, _ := v.([]any); return l }

// checkObjects looks at what a cluster would refuse, or run and find broken.
func checkObjects(t *testing.T, docs []map[string]any) {
	t.Helper()
	names := make(map[string]bool)
	ports := make(map[string]bool)
	for _, d := range docs {
		id := fmt.Sprint(d["kind"], " ", at(d, "metadata", "name"))
		if d["apiVersion"] == nil || at(d, "metadata", "name") == nil || names[id] {
			t.Errorf("%s: the name is not new, or something is missing", id)
		}
		names[id] = true
		pod := at(d, "spec", "template", "spec")
		if pod == nil {
			continue
		}
		labels, _ := at(d, "spec", "template", "metadata", "labels").(map[string]any)
		wanted, _ := at(d, "spec", "selector", "matchLabels").(map[string]any)
		for k, v := range wanted {
			if labels[k] != v {
				t.Errorf("%s: the selector wants %s=%v, the pods have %v", id, k, v, labels[k])
			}
		}
		for _, c := range list(at(pod, "containers")) {
			env := []string{}
			for _, e := range list(at(c, "env")) {
				env = append(env, fmt.Sprint(at(e, "name"), "=", text(at(e, "value"))))
			}
			var args []string
			for _, a := range list(at(c, "args")) {
				args = append(args, fmt.Sprint(a))
			}
			checkCommand(t, id, args, env)
			if at(c, "securityContext", "readOnlyRootFilesystem") != true || at(c, "resources", "limits", "memory") == nil {
				t.Errorf("%s: a container may write, or has no limit", id)
			}
			for _, p := range list(at(c, "ports")) {
				ports[fmt.Sprint(at(p, "name"))] = true
			}
		}
	}
	for _, d := range docs {
		if d["kind"] == "Service" {
			for _, p := range list(at(d, "spec", "ports")) {
				if !ports[fmt.Sprint(at(p, "targetPort"))] {
					t.Errorf("a Service leads to the port %v, which no pod has", at(p, "targetPort"))
				}
			}
		}
	}
	if c := slices.Sorted(maps.Keys(names)); len(c) == 0 {
		t.Error("there is nothing")
	}
}

// text is the value of a variable; one that comes from elsewhere is a placeholder.
func text(v any) string {
	if v == nil {
		return "pw"
	}
	return fmt.Sprint(v)
}
