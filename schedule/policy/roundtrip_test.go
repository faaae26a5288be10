package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// render writes a step as one line of YAML.
func render(s *Step, named bool) string {
	var b strings.Builder
	quote := func(list []string) string {
		var q []string
		for _, s := range list {
			q = append(q, strconv.Quote(s))
		}
		return "[" + strings.Join(q, ", ") + "]"
	}
	b.WriteString("{")
	if named {
		fmt.Fprintf(&b, "name: %q, ", s.Name)
	}
	m := &s.Match
	b.WriteString("match: {")
	for key, v := range map[string]string{
		"region": m.Region, "engine": m.Engine, "engine_version": m.EngineVersion,
		"organization": m.Organization, "machine": m.Machine, "gpu_model": m.GPUModel,
	} {
		if v != "" {
			fmt.Fprintf(&b, "%s: %q, ", key, v)
		}
	}
	fmt.Fprintf(&b, "tags: %s, adapters: %s}, exclude_if: {", quote(m.Tags), quote(m.Adapters))
	for _, g := range slices.Backward(s.Gates) {
		missing := "skip"
		if g.ExcludeMissing {
			missing = "exclude"
		}
		fmt.Fprintf(&b, "%s: {%s: %s, on_missing: %s}, ", g.Signal, opNames[g.Op], plain(g.Value), missing)
	}
	b.WriteString("}, strategy: {")
	for _, t := range s.Strategy.Terms {
		fmt.Fprintf(&b, "%s: %s, ", t.Name, plain(t.Weight))
	}
	fmt.Fprintf(&b, "}, max_tries: %d, max_wait: %s, first_byte_timeout: %s, hedge: %t}", s.MaxTries, s.MaxWait, s.FirstByteTimeout, s.Hedge)
	return b.String()
}

func drawStep(t *rapid.T, name string) Step {
	text := rapid.StringMatching(`([a-zA-Z0-9_:#'"{}-][a-zA-Z0-9 ]{0,6}[a-z0-9./])?`)
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9:*&!%@~-]{1,8}`), 0, 4, rapid.ID)
	s := Step{Name: name, Match: Match{
		Region: text.Draw(t, "region"), Engine: text.Draw(t, "engine"), EngineVersion: text.Draw(t, "version"),
		Organization: text.Draw(t, "organization"), Machine: text.Draw(t, "machine"), GPUModel: text.Draw(t, "gpu"),
		Tags: names.Draw(t, "tags"), Adapters: names.Draw(t, "adapters"),
	}}
	if len(s.Match.Tags) == 0 {
		s.Match.Tags = nil
	}
	if len(s.Match.Adapters) == 0 {
		s.Match.Adapters = nil
	}
	for signal := range NumSignals {
		if rapid.IntRange(0, 3).Draw(t, "gate") == 0 {
			most := 1e6
			if signal.fraction() {
				most = 1
			}
			s.Gates = append(s.Gates, Gate{
				Signal: signal, Op: Op(rapid.IntRange(0, 3).Draw(t, "op")),
				Value: rapid.Float64Range(0, most).Draw(t, "value"), ExcludeMissing: rapid.Bool().Draw(t, "missing"),
			})
		}
	}
	combined := slices.DeleteFunc(Strategies(), func(s string) bool { return slices.Contains(alone, s) })
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(combined), 1, 4, rapid.ID).Draw(t, "strategies") {
		s.Strategy.Terms = append(s.Strategy.Terms, Term{n, rapid.Float64Range(1e-3, 1e6).Draw(t, "weight")})
	}
	s.MaxTries = rapid.IntRange(0, maxTries).Draw(t, "tries")
	s.MaxWait = time.Duration(rapid.Int64Range(0, int64(maxWait)).Draw(t, "wait"))
	s.Hedge = rapid.Bool().Draw(t, "hedge")
	s.FirstByteTimeout = time.Duration(rapid.Int64Range(0, int64(maxWait)).Draw(t, "first byte"))
	return s
}

// TestRoundTrip: whatever is valid is read as it is meant.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want fields
		want.first = drawStep(t, "routing_policy")
		text := "routing_policy: " + render(&want.first, false) + "\nfallback_chain:\n"
		for i := range rapid.IntRange(0, 3).Draw(t, "chain") {
			s := drawStep(t, fmt.Sprintf("step %d", i))
			want.chain = append(want.chain, s)
			text += "  - " + render(&s, true) + "\n"
		}
		want.admission.MaxInflight = rapid.Int64Range(0, maxCount).Draw(t, "max_inflight")
		want.admission.MaxOccupancyShare = rapid.Float64Range(0, 1).Draw(t, "share")
		text += fmt.Sprintf("max_inflight: %d\nmax_occupancy_share: %s\n", want.admission.MaxInflight, plain(want.admission.MaxOccupancyShare))
		d, err := Parse("p", []byte(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, d.fields, cmp.AllowUnexported(fields{}, Step{})); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text)
		}
	})
}

// FuzzParse: no text makes the parser panic or run on, and what it accepts makes a
// policy that decides.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/reference/*")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("routing_policy: &a {strategy: {prefix-aware: 1e3, least-loaded: 0x10}, options: {load_weight: 1}, <<: *a}"))
	f.Add([]byte("fallback_chain: &a [*a, {<<: [*a, {}]}]"))
	f.Add([]byte("models: [!!binary aGk=, !!float x, 2001-01-01, ~]\nshed_if: !!set {kv_cache_utilization}"))
	agents := serving(fleetOf(3, 4)...)
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse("p", text)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without a text")
			}
			return
		}
		set, err := NewSet(1, []*Document{d})
		if err != nil {
			if len(d.fields.split) == 0 || d.fields.shadow == nil {
				t.Fatal(err) // only a shadow that is the alias contradicts what is in one document
			}
			return
		}
		policies := []*Policy{set.For("")}
		for _, m := range d.Models {
			policies = append(policies, set.For(m))
		}
		var pool Pool
		for _, p := range policies {
			for i := range p.Steps {
				if p.Steps[i].Name == "" || p.Label(i) == "" {
					t.Fatalf("step %d has no name", i)
				}
				pool.Decide(&p.Steps[i], &Request{Session: 1, Random: 2}, agents)
			}
		}
	})
}
