package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, name, text string) *Document {
	t.Helper()
	d, err := Parse(name, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// reference reads documents as operators of the reference system have them.
func reference(t *testing.T) []*Document {
	t.Helper()
	files, err := filepath.Glob("testdata/reference/*.y*ml")
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var docs []*Document
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, parse(t, strings.TrimSuffix(filepath.Base(f), filepath.Ext(f)), string(text)))
	}
	return docs
}

func leastLoadedSpec() StrategySpec { return StrategySpec{Terms: []Term{{"least-loaded", 1}}} }

// TestReferenceDocuments: documents with the reference's field names load unchanged,
// and mean the same.
func TestReferenceDocuments(t *testing.T) {
	set, err := NewSet(7, reference(t))
	if err != nil {
		t.Fatal(err)
	}
	admission := Admission{
		MaxInputTokens: 32768, ImagesMax: 8, AdmitBudgetTokens: 400_000, MaxInflight: 64, MaxOccupancyShare: 0.4,
		ShedIf: []Gate{{Signal: KVCacheUtilization, Op: GT, Value: 0.97}, {Signal: WaitingRequests, Op: GTE, Value: 40}},
	}
	want := map[string]*Policy{
		"anything": {
			Name: "_default", Version: 7, Mode: "serverless", Admission: admission,
			Steps: []Step{{
				Name: "routing_policy", Strategy: leastLoadedSpec(), label: "_default/routing_policy/least-loaded",
				Gates: []Gate{{Signal: SuccessRate, Op: LT, Value: 0.8}, {Signal: ConsecutiveFailures, Op: GTE, Value: 3}},
			}},
		},
		"Qwen/Qwen2.5-7B-Instruct": {
			Name: "chat", Version: 7, Mode: "reserved", Admission: admission, Provider: &Provider{"openai", "gpt-4o-mini"},
			Steps: []Step{{
				Name: "routing_policy", Strategy: leastLoadedSpec(), label: "chat/routing_policy/least-loaded", MaxTries: 2,
				Match: Match{Region: "eu-west", Tags: []string{"prod", "h100"}},
				Gates: []Gate{{Signal: SRTT, Op: GT, Value: 800}, {Signal: KVCacheUtilization, Op: GT, Value: 0.9}, {Signal: GPUTemperatureC, Op: GTE, Value: 85}},
			}, {
				Name: "any-region", Strategy: leastLoadedSpec(), label: "chat/any-region/least-loaded", Match: Match{Tags: []string{"prod"}},
			}, {
				Name: "fallback_chain[1]", Strategy: leastLoadedSpec(), label: "chat/fallback_chain[1]/least-loaded",
				Gates: []Gate{{Signal: WaitingRequests, Op: GT, Value: 20}},
			}},
		},
		"BAAI/bge-m3": {
			Name: "embeddings", Version: 7, Mode: "serverless", Admission: admission,
			Steps: []Step{{
				Name: "routing_policy", Strategy: leastLoadedSpec(), label: "embeddings/routing_policy/least-loaded",
				Match: Match{Engine: "vllm", Organization: "acme", Machine: "node-7", GPUModel: "4090"},
				Gates: []Gate{
					{Signal: CapacityUtilization, Op: GTE, Value: 0.95}, {Signal: RunningRequests, Op: GT, Value: 100},
					{Signal: AvgTTFTSeconds, Op: GT, Value: 1.5}, {Signal: P90TTFTSeconds, Op: GT, Value: 4},
					{Signal: AvgITLSeconds, Op: GT, Value: 0.05}, {Signal: P90ITLSeconds, Op: GT, Value: 0.2},
					{Signal: GPUUtilPercent, Op: GT, Value: 0.98}, {Signal: GPUVRAMUsedPercent, Op: GT, Value: 0.98},
					{Signal: MemoryUsedPercent, Op: LTE, Value: 0}, {Signal: CPUUsagePercent, Op: GT, Value: 0.9},
				},
			}},
		},
		"mistral-small": {
			Name: "anchors", Version: 7, Mode: "serverless", Admission: admission,
			Steps: []Step{{
				Name: "routing_policy", Strategy: leastLoadedSpec(), label: "anchors/routing_policy/least-loaded",
				Match: Match{Region: "us-east"}, Gates: []Gate{{Signal: SRTT, Op: GT, Value: 500}}, MaxTries: 3,
			}, {
				Name: "second-try", Strategy: leastLoadedSpec(), label: "anchors/second-try/least-loaded",
				Match: Match{Region: "us-west"}, Gates: []Gate{{Signal: SRTT, Op: GT, Value: 500}}, MaxTries: 3,
			}, {
				Name: "last-resort", Strategy: leastLoadedSpec(), label: "anchors/last-resort/least-loaded",
				Gates: []Gate{{Signal: SuccessRate, Op: LT, Value: 0.5}, {Signal: SRTT, Op: GT, Value: 500}},
			}},
		},
	}
	for model, w := range want {
		if diff := cmp.Diff(w, set.For(model), cmp.AllowUnexported(Policy{}, Step{})); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", model, diff)
		}
	}
}

// TestParseOwn: what these documents have beyond the reference's.
func TestParseOwn(t *testing.T) {
	d := parse(t, "p", `
models: [a]
routing_policy:
  match: {engine_version: "0.11.0", adapters: [sql-lora], region: ""}
  exclude_if:
    prefix_hit_rate: {lt: 0.1, on_missing: skip}
    preemption_rate: {gt: 2, on_missing: exclude}
  strategy: {prefix-aware: 2, lowest-queue: 0.5, session-affinity: 1}
  options: {load_weight: 0.7, bound: 1.5, sticky: soft, share_tenants: true}
  max_wait: 1500ms
fallback_chain:
  - strategy: session-affinity
    options: {sticky: hard}
  - strategy: round-robin
  - strategy: {power-of-two: 1}
`)
	first := Step{
		Name:  "routing_policy",
		Match: Match{EngineVersion: "0.11.0", Adapters: []string{"sql-lora"}},
		Gates: []Gate{{Signal: PrefixHitRate, Op: LT, Value: 0.1}, {Signal: PreemptionRate, Op: GT, Value: 2, ExcludeMissing: true}},
		Strategy: StrategySpec{
			Terms:   []Term{{"prefix-aware", 2}, {"lowest-queue", 0.5}, {"session-affinity", 1}},
			Options: Options{LoadWeight: 0.7, Bound: 1.5, Sticky: StickySoft, ShareTenants: true},
		},
		MaxWait: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(first, d.fields.first, cmp.AllowUnexported(Step{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for i, want := range []string{"session-affinity", "round-robin", "power-of-two"} {
		if got := d.fields.chain[i].Strategy.String(); got != want {
			t.Errorf("step %d is %s, want %s", i, got, want)
		}
	}
}

// TestParseNothing: a key without a value is the key with an empty one, where that
// means something.
func TestParseNothing(t *testing.T) {
	d := parse(t, "p", "mode: reserved\nshed_if:\nmax_inflight:\nmax_occupancy_share:\nfallback_chain:\nfallback_provider:\nrouting_policy:\n  match:\n  exclude_if:\n  options:\n  max_tries:\n  max_wait:\n  strategy: least-loaded\n")
	if diff := cmp.Diff(Step{Name: "routing_policy", Strategy: leastLoadedSpec()}, d.fields.first, cmp.AllowUnexported(Step{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
