package policy

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPick: each model behind an alias gets its share, those that are not there get
// nothing while others are, and a key keeps its model when another weight grows only
// if that is possible at all.
func TestPick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p Policy
		total := 0.0
		for i := range rapid.IntRange(1, 6).Draw(t, "models") {
			w := float64(rapid.IntRange(0, 5).Draw(t, "weight"))
			p.Split = append(p.Split, Target{string(rune('a' + i)), w})
			total += w
		}
		if total == 0 {
			p.Split[0].Weight, total = 1, 1
		}
		gone := rapid.SampledFrom(p.Split).Draw(t, "gone").Model
		got := make(map[string]float64)
		const keys = 6000
		for i := range keys {
			key := uint64(i) * (math.MaxUint64 / keys)
			m := p.Pick(key, "", func(string) bool { return true })
			got[m]++
			if again := p.Pick(key, "", func(string) bool { return true }); again != m {
				t.Fatalf("key %d: %s, then %s", key, m, again)
			}
			other := p.Pick(key, "", func(m string) bool { return m != gone })
			if other == "" || other == gone && total > p.Split[slices.IndexFunc(p.Split, func(x Target) bool { return x.Model == gone })].Weight {
				t.Fatalf("key %d: %q, but %s is not there", key, other, gone)
			}
			if m := p.Pick(key, "", func(string) bool { return false }); m == "" {
				t.Fatal("nobody is there, and no model is named for the error")
			}
		}
		for _, x := range p.Split {
			if share := got[x.Model] / keys; math.Abs(share-x.Weight/total) > 0.002 {
				t.Errorf("%s gets %.4f, its weight is %g of %g", x.Model, share, x.Weight, total)
			}
		}
		if p.Pick(math.MaxUint64, "", func(string) bool { return true }) == "" {
			t.Error("the largest key gets no model")
		}
	})
	if (&Policy{}).Pick(1, "", func(string) bool { return true }) != "" {
		t.Error("a policy without a split picks")
	}
}

// TestAliasConflicts: an alias leads to models, not to other aliases.
func TestAliasConflicts(t *testing.T) {
	parse := func(name, text string) *Document {
		d, err := Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	_, err := NewSet(1, []*Document{parse("x", "models: [a]\nsplit: {b: 1}\n"), parse("y", "models: [b]\nsplit: {c: 1}\n"), parse("z", "models: [d]\nshadow: {model: a, share: 1}\n")})
	want := "x names \"b\" behind its alias, which is an alias itself\nthe shadow of z is \"a\", which is an alias; name the model"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	set, err := NewSet(1, []*Document{parse("x", "models: [a, a2]\nsplit: {b: 1, c: 2}\n")})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Aliases(); len(got) != 2 || !slices.Equal(got["a2"], []string{"b", "c"}) {
		t.Errorf("aliases: %v", got)
	}
}

// TestSplitTenants: a tenant that is named gets models of its own, the others those of
// all; what leads to an alias is refused for tenants, too.
func TestSplitTenants(t *testing.T) {
	d := parse(t, "chat", "models: [chat]\nsplit: {b: 1}\nsplit_tenants: {acme: {c: 1, d: 0}}\n")
	set, err := NewSet(1, []*Document{d})
	if err != nil {
		t.Fatal(err)
	}
	there := func(string) bool { return true }
	for tenant, want := range map[string]string{"": "b", "other": "b", "acme": "c"} {
		if got := set.For("chat").Pick(1, tenant, there); got != want {
			t.Errorf("tenant %q gets %q, want %q", tenant, got, want)
		}
	}
	// Where the tenant's own models are not, it is not given those of the others.
	if got := set.For("chat").Pick(1, "acme", func(m string) bool { return m == "b" }); got != "c" {
		t.Errorf("the tenant is given %q", got)
	}
	if _, err := NewSet(1, []*Document{d, parse(t, "c", "models: [c]\nsplit: {x: 1}\n")}); err == nil {
		t.Error("a tenant's alias leads to an alias")
	}
}

// TestAdapterSource: the name of an adapter is in its path, and its base is a model.
func TestAdapterSource(t *testing.T) {
	d := parse(t, "loras", "models: [org/sql, fr]\nadapter: {base: m, path: \"/a/{model}/{model}\", replicas: 2}\n")
	set, err := NewSet(1, []*Document{d})
	if err != nil {
		t.Fatal(err)
	}
	if a := set.For("fr").Adapter; a == nil || a.PathOf("org/sql") != "/a/org/sql/org/sql" || a.Replicas != 2 || a.Base != "m" {
		t.Errorf("adapter %+v", a)
	}
	if set.For("m").Adapter != nil {
		t.Error("the base is an adapter")
	}
	if _, err := NewSet(1, []*Document{d, parse(t, "m", "models: [m]\nsplit: {x: 1}\n")}); err == nil {
		t.Error("the base of an adapter is an alias")
	}
}
