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
			m := p.Pick(key, func(string) bool { return true })
			got[m]++
			if again := p.Pick(key, func(string) bool { return true }); again != m {
				t.Fatalf("key %d: %s, then %s", key, m, again)
			}
			other := p.Pick(key, func(m string) bool { return m != gone })
			if other == "" || other == gone && total > p.Split[slices.IndexFunc(p.Split, func(x Target) bool { return x.Model == gone })].Weight {
				t.Fatalf("key %d: %q, but %s is not there", key, other, gone)
			}
			if m := p.Pick(key, func(string) bool { return false }); m == "" {
				t.Fatal("nobody is there, and no model is named for the error")
			}
		}
		for _, x := range p.Split {
			if share := got[x.Model] / keys; math.Abs(share-x.Weight/total) > 0.002 {
				t.Errorf("%s gets %.4f, its weight is %g of %g", x.Model, share, x.Weight, total)
			}
		}
		if p.Pick(math.MaxUint64, func(string) bool { return true }) == "" {
			t.Error("the largest key gets no model")
		}
	})
	if (&Policy{}).Pick(1, func(string) bool { return true }) != "" {
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
