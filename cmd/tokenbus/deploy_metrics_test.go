package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md anew")

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// added are labels that Prometheus adds, and its own metric.
var added = []string{"job", "instance"}

// checkQuery finds names and labels in an expression that nothing exports.
func checkQuery(all map[string]exported, expr string) (labels []string, problems []string) {
	q, err := scanQuery(expr)
	if err != nil {
		return nil, []string{err.Error()}
	}
	if len(q.metrics) == 0 {
		return nil, []string{fmt.Sprintf("%q names no metric", expr)}
	}
	labels = slices.Clone(added)
	for metric, matched := range q.metrics {
		have := slices.Clone(added)
		if metric != "up" {
			e, suffix, ok := find(all, metric)
			if !ok {
				problems = append(problems, fmt.Sprintf("%q: nothing exports %s", expr, metric))
				continue
			}
			have = append(have, e.labels...)
			if suffix == "_bucket" {
				have = append(have, "le")
			}
		}
		for _, l := range matched {
			if !slices.Contains(have, l) {
				problems = append(problems, fmt.Sprintf("%q: %s has no label %s", expr, metric, l))
			}
		}
		labels = append(labels, have...)
	}
	for _, l := range q.groups {
		if !slices.Contains(labels, l) {
			problems = append(problems, fmt.Sprintf("%q: no metric in it has the label %s", expr, l))
		}
	}
	return labels, problems
}

// find gives the metric that a series belongs to.
func find(all map[string]exported, series string) (e exported, suffix string, ok bool) {
	if e, ok = all[series]; ok && e.kind != "histogram" {
		return e, "", true
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if base, cut := strings.CutSuffix(series, suffix); cut {
			if e, ok = all[base]; ok && e.kind == "histogram" {
				return e, suffix, true
			}
		}
	}
	return exported{}, "", false
}

// TestDeployQueries: every name and label in the dashboards and alerts is one that
// the code exports, and every metric that Tokenbus exports is on a page.
func TestDeployQueries(t *testing.T) {
	all := demo(t)
	t.Run("dashboards", func(t *testing.T) { checkDashboards(t, all) })
	t.Run("rules", func(t *testing.T) { checkRules(t, all) })
	t.Run("page", func(t *testing.T) { checkPage(t, all) })
	t.Run("mistakes", func(t *testing.T) {
		for _, expr := range []string{
			"tokenbus_made_up", `tokenbus_ready{agent="a"}`, "sum by (agent) (tokenbus_ready)", "5 > 4",
			"tokenbus_gateway_overhead_seconds > 1", "rate(tokenbus_ready_bucket[5m])",
		} {
			if _, problems := checkQuery(all, expr); len(problems) == 0 {
				t.Errorf("%s: nothing is found wrong", expr)
			}
		}
	})
}

// dashboard is what is looked at of a Grafana dashboard.
type dashboard struct {
	UID, Title string
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr, LegendFormat string }
	}
}

var (
	variable    = regexp.MustCompile(`\$\{?(\w+)\}?`)
	legend      = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)
)

func checkDashboards(t *testing.T, all map[string]exported) {
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	shown := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		report := func(panel string, problems ...string) {
			for _, p := range problems {
				t.Errorf("%s: %s: %s", filepath.Base(file), panel, p)
			}
		}
		variables := []string{"__rate_interval"}
		for _, v := range d.Templating.List {
			variables = append(variables, v.Name)
			if v.Type == "query" {
				m := labelValues.FindStringSubmatch(v.Definition)
				if m == nil {
					report(v.Name, v.Definition+" is not understood")
				} else if e, ok := all[m[1]]; !ok || !slices.Contains(e.labels, m[2]) {
					report(v.Name, v.Definition+": nothing exports that")
				}
			}
		}
		for _, p := range d.Panels {
			if p.Type != "row" && len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 {
				report(p.Title, "it has no query, or no place")
			}
			for _, q := range p.Targets {
				labels, problems := checkQuery(all, q.Expr)
				report(p.Title, problems...)
				for _, m := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
					if !slices.Contains(labels, m[1]) {
						report(p.Title, "the legend names the label "+m[1]+", which the query has not")
					}
				}
				for _, m := range variable.FindAllStringSubmatch(q.Expr, -1) {
					if !slices.Contains(variables, m[1]) {
						report(p.Title, "the variable "+m[1]+" does not exist")
					}
				}
				names, _ := scanQuery(q.Expr)
				for m := range names.metrics {
					for _, suffix := range []string{"_bucket", "_count", "_sum"} {
						shown[strings.TrimSuffix(m, suffix)] = true
					}
					shown[m] = true
				}
			}
		}
	}
	// What no dashboard shows is there for other reasons.
	unseen := map[string]string{
		"gen_ai_server_request_duration_seconds":      "another name of one that is shown",
		"gen_ai_server_time_to_first_token_seconds":   "another name of one that is shown",
		"gen_ai_server_time_per_output_token_seconds": "another name of one that is shown",
	}
	for name := range all {
		own := strings.HasPrefix(name, "tokenbus_gateway_") || strings.HasPrefix(name, "tokenbus_agent_engine_") || strings.HasPrefix(name, "gen_ai_")
		if own && !shown[name] && unseen[name] == "" {
			t.Errorf("no dashboard shows %s", name)
		}
	}
}

func checkRules(t *testing.T, all map[string]exported) {
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	readYAML(t, "../../deploy/prometheus/tokenbus.rules.yml", &rules)
	field := regexp.MustCompile(`\$labels\.(\w+)`)
	seen := make(map[string]bool)
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			labels, problems := checkQuery(all, r.Expr)
			for _, p := range problems {
				t.Errorf("%s: %s", r.Alert, p)
			}
			if seen[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: the name is not new, or something is missing", r.Alert)
			}
			seen[r.Alert] = true
			for _, text := range r.Annotations {
				for _, m := range field.FindAllStringSubmatch(text, -1) {
					if !slices.Contains(labels, m[1]) {
						t.Errorf("%s: an annotation names the label %s, which the query has not", r.Alert, m[1])
					}
				}
			}
		}
	}
	if len(seen) == 0 {
		t.Error("there are no rules")
	}
	var config struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "../../deploy/prometheus/prometheus.yml", &config)
	if len(config.ScrapeConfigs) != 4 {
		t.Errorf("%d processes are scraped, want 4", len(config.ScrapeConfigs))
	}
	for _, f := range config.RuleFiles {
		if _, err := os.Stat(filepath.Join("../../deploy/prometheus", f)); err != nil {
			t.Error(err)
		}
	}
}

// readYAML reads a file, unless it has fields that v has not.
func readYAML(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// checkPage compares the reference page with what the code exports.
func checkPage(t *testing.T, all map[string]exported) {
	var b bytes.Buffer
	b.WriteString("# Metrics\n\nWhat `/metrics` of the processes shows, beside the series of the Go runtime and of the process. Generated; do not edit. " +
		"To write it anew: `go test ./cmd/tokenbus -run TestDeployQueries -update`.\n\n" +
		"A gateway with a local scheduler shows the series of both; `tokenbus up` shows all. Histograms have classic and native buckets; " +
		"Prometheus gets the native ones with `scrape_native_histograms`. A model is named only while some agent has it or requests for it are answered, " +
		"and everything beyond a hard bound is `other`. Series of a model that left go away after five minutes, those of an agent at once. " +
		"A measurement that is missing or stale is absent, not 0.\n\n")
	for _, group := range []struct{ title, prefix string }{
		{"Every process", ""}, {"Gateway", "tokenbus_gateway_"}, {"Gateway, under OpenTelemetry's names", "gen_ai_"},
		{"Scheduler", "tokenbus_scheduler_"}, {"Agent", "tokenbus_agent_"}, {"Bus", "tokenbus_bus_server_"},
	} {
		fmt.Fprintf(&b, "## %s\n\n| metric | kind | labels | what |\n|---|---|---|---|\n", group.title)
		for _, name := range sortedKeys(all) {
			if prefixOf(name) != group.prefix || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				continue
			}
			e := all[name]
			kind := e.kind
			switch {
			case kind == "" && strings.HasSuffix(name, "_total"):
				kind = "counter"
			case kind == "":
				kind = "gauge"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, kind, strings.Join(e.labels, ", "), e.help)
		}
		b.WriteString("\n")
	}
	got := bytes.TrimRight(b.Bytes(), "\n")
	got = append(got, '\n')
	const path = "../../docs/reference/metrics.md"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("metrics.md is not what the code exports (%v); go test ./cmd/tokenbus -run TestDeployQueries -update", err)
	}
}

func prefixOf(metric string) string {
	for _, p := range []string{"tokenbus_gateway_", "gen_ai_", "tokenbus_scheduler_", "tokenbus_agent_", "tokenbus_bus_server_"} {
		if strings.HasPrefix(metric, p) {
			return p
		}
	}
	return ""
}
