package peek

import (
	"slices"
	"strings"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	for name, p := range map[string]Prefix{
		"none": {}, "one": {1}, "ends": {0, 1<<64 - 1}, "three": {1, 2, 3}, "most": make(Prefix, MaxBlocks),
	} {
		t.Run(name, func(t *testing.T) {
			var buf [MaxBlocks]uint64
			back, err := ParsePrefix(p.String(), buf[:0])
			if err != nil || !slices.Equal(p, back) {
				t.Errorf("%s came back as %v, %v", p, back, err)
			}
		})
	}
	if s := (Prefix{1}).String(); s != "AAAAAAAAAAE" {
		t.Errorf("one is written %s", s)
	}
	if p, err := ParsePrefix(make(Prefix, MaxBlocks+5).String(), nil); err != nil || len(p) != MaxBlocks {
		t.Errorf("a prefix that is too long came back with %d blocks, %v", len(p), err)
	}
	one := Prefix{1}.String()
	for name, s := range map[string]string{
		"half": one[:8], "padded": one + "=", "line": one[:4] + "\n" + one[4:], "other alphabet": "AAAAAAAAAA+",
		"stray bits": "AAAAAAAAAAF", "long": strings.Repeat("A", maxText+1), "huge": strings.Repeat("A", 1<<20), "text": "a b",
	} {
		if p, err := ParsePrefix(s, nil); err == nil || len(p) > 0 {
			t.Errorf("%s is taken as %v", name, p)
		}
	}
}

// FuzzParsePrefix: what is taken is written the same way again.
func FuzzParsePrefix(f *testing.F) {
	f.Add("")
	f.Add(Prefix{1, 2, 1 << 63}.String())
	f.Add("AAAAAAAAAA\nF")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrefix(s, nil)
		if err != nil {
			return
		}
		if len(p) > MaxBlocks || p.String() != s {
			t.Fatalf("%q came back as %q", s, p)
		}
	})
}
