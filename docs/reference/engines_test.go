package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// TestEngines: the tables of engines.md are what the code says. With -update they are
// written:
//
//	go test ./docs/reference -run TestEngines -update
func TestEngines(t *testing.T) {
	found := map[string]string{
		"vllm": "`owned_by`", "sglang": "`owned_by`", "llamacpp": "`owned_by`", "infinity": "`owned_by`, or `/models` without `/v1/models`",
		"ollama": "`/api/version`", "tei": "`/info` without `/v1/models`", "openai": "any other list at `/v1/models`",
	}
	capacity := map[string]string{"sglang": "`max_running_requests`, of all ranks", "llamacpp": "its slots", "tei": "`max_concurrent_requests`"}
	code := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return "`" + strings.Join(list, "`, `") + "`"
	}
	kinds := "| kind | found by | capacity it states | APIs |\n|---|---|---|---|\n"
	metrics := "| signal | kind | names |\n|---|---|---|\n"
	for _, k := range engine.Kinds {
		if found[k.Name] == "" {
			t.Errorf("engines.md does not say how %s is found", k.Name)
		}
		apis := "as the model has it"
		if k.APIs != nil {
			apis = code(names(k.APIs))
		}
		kinds += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.Name, found[k.Name], cmp.Or(capacity[k.Name], "none"), apis)
	}
	for _, row := range []struct {
		signal string
		of     func(engine.Names) []string
	}{
		{"`running_requests`", func(n engine.Names) []string { return n.Running }},
		{"`waiting_requests`", func(n engine.Names) []string { return n.Waiting }},
		{"`kv_cache_utilization`", func(n engine.Names) []string { return n.CacheUse }},
		{"`prefix_hit_rate`: found", func(n engine.Names) []string { return n.Hits }},
		{"`prefix_hit_rate`: of", func(n engine.Names) []string { return n.Queries }},
		{"`prefix_hit_rate`: of found and", func(n engine.Names) []string { return n.Misses }},
		{"`preemption_rate`", func(n engine.Names) []string { return n.Preemptions }},
		{"`avg_ttft_seconds`, `p90_ttft_seconds`", func(n engine.Names) []string { return n.TTFT }},
		{"`avg_itl_seconds`, `p90_itl_seconds`", func(n engine.Names) []string { return n.ITL }},
	} {
		for _, k := range engine.Kinds {
			if list := row.of(k.Metrics); len(list) > 0 {
				metrics += fmt.Sprintf("| %s | `%s` | %s |\n", row.signal, k.Name, code(list))
			}
		}
	}
	page := read(t, "engines.md")
	want := between(t, between(t, page, "<!-- kinds:begin", "<!-- kinds:end -->", kinds), "<!-- metrics:begin", "<!-- metrics:end -->", metrics)
	if *update {
		if err := os.WriteFile("engines.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if page != want {
		t.Error("engines.md is not what the code says; go test ./docs/reference -run TestEngines -update")
	}
}

func names(apis []bus.API) []string {
	list := make([]string, 0, len(apis))
	for _, a := range apis {
		list = append(list, string(a))
	}
	return list
}

// between puts a text between the line of one mark and another mark.
func between(t *testing.T, page, begin, end, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, begin)
	mark, rest, ok2 := strings.Cut(rest, "\n")
	_, after, ok3 := strings.Cut(rest, end)
	if !ok || !ok2 || !ok3 {
		t.Fatalf("the page has no %s … %s", begin, end)
	}
	return before + begin + mark + "\n" + text + end + after
}
