package prefix

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func hundred(int) int { return 100 }

// prompt makes the hashes of a text whose blocks are its letters.
func prompt(text string) []uint64 {
	var p []uint64
	h := uint64(14695981039346656037)
	for _, c := range text {
		h = (h ^ uint64(c)) * 1099511628211
		p = append(p, h)
	}
	return p
}

func depths(x *Index, text string, agents int) []int {
	x.Match(prompt(text))
	var d []int
	for a := range agents {
		d = append(d, x.Depth(a))
	}
	return d
}

func TestMatch(t *testing.T) {
	x := New(1000, hundred)
	x.Insert(0, prompt("abcd"))
	x.Insert(1, prompt("abxy"))
	x.Insert(3, prompt("b"))
	for text, want := range map[string][]int{
		"abcdef": {4, 2, 0, 0}, "abxyz": {2, 4, 0, 0}, "ab": {2, 2, 0, 0}, "bcd": {0, 0, 0, 1}, "q": {0, 0, 0, 0}, "": {0, 0, 0, 0},
	} {
		if got := depths(x, text, 4); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if held := x.Insert(0, prompt("abce")); held != 3 {
		t.Errorf("held %d blocks, want 3", held)
	}
	x.Drop(0, prompt("abce")[3:])
	if got := depths(x, "abce", 1)[0]; got != 3 {
		t.Errorf("after a drop: %d", got)
	}
	x.Purge(0)
	if got := depths(x, "abcd", 2); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("after a purge: %v", got)
	}
}

// The least recently used leave first, and the end of a prompt before its beginning.
func TestRoom(t *testing.T) {
	x := New(1000, hundred)
	x.SetRoom(0, 500)
	x.Insert(0, prompt("abc"))
	x.Insert(0, prompt("xyz"))
	if a, b := depths(x, "abc", 1)[0], depths(x, "xyz", 1)[0]; a != 2 || b != 3 {
		t.Errorf("matches %d and %d, want 2 and 3", a, b)
	}
	x.Insert(0, prompt("ab")) // used again
	x.Insert(0, prompt("q"))
	if a, b := depths(x, "abc", 1)[0], depths(x, "xyz", 1)[0]; a != 2 || b != 2 {
		t.Errorf("matches %d and %d, want 2 and 2", a, b)
	}
	x.SetRoom(0, 100)
	if x.Len() != 1 || x.Bytes(0) != 100 {
		t.Errorf("%d entries, %d bytes", x.Len(), x.Bytes(0))
	}
}

// TestIndexRandom compares the index with lists of strings.
func TestIndexRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const agents, room, most = 4, 12, 30
		x := New(most, hundred)
		for a := range agents {
			x.SetRoom(a, room*100)
		}
		model := make([][]uint64, agents) // most recently used first
		texts := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 6, -1)
		forget := func(a int, h uint64) {
			if i := slices.Index(model[a], h); i >= 0 {
				model[a] = slices.Delete(model[a], i, i+1)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			a := rapid.IntRange(0, agents-1).Draw(t, "agent")
			p := prompt(texts.Draw(t, "text"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				x.Purge(a)
				model[a] = nil
			case 1:
				x.Drop(a, p)
				for _, h := range p {
					forget(a, h)
				}
			default:
				x.Insert(a, p)
				for _, h := range slices.Backward(p) {
					forget(a, h)
					model[a] = slices.Insert(model[a], 0, h)
				}
				model[a] = model[a][:min(len(model[a]), room)]
			}
			total := 0
			for a := range agents {
				total += x.shelf[a].count
				if x.Bytes(a) != int64(100*x.shelf[a].count) {
					t.Fatalf("agent %d: %d bytes in %d entries", a, x.Bytes(a), x.shelf[a].count)
				}
			}
			if total != x.Len() || x.Len() > most || len(x.nodes) > most+6 {
				t.Fatalf("%d entries counted, %d said, %d nodes", total, x.Len(), len(x.nodes))
			}
			if x.Len() == most {
				return // the bound of the index took what the model does not know
			}
			q := prompt(texts.Draw(t, "asked"))
			x.Match(q)
			for a := range agents {
				want := 0
				for want < len(q) && slices.Contains(model[a], q[want]) {
					want++
				}
				if got := x.Depth(a); got != want {
					t.Fatalf("agent %d: %d, want %d", a, got, want)
				}
			}
		}
	})
}

func BenchmarkInsert(b *testing.B) {
	x := New(1<<16, hundred)
	p := make([]uint64, 24)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for j := range p {
			p[j] = uint64(j)
			if j > 12 {
				p[j] = uint64(i*100 + j)
			}
		}
		x.Insert(i%1000, p)
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, agents := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(agents), func(b *testing.B) {
			x := New(1<<20, hundred)
			shared := make([]uint64, 24)
			for i := range shared {
				shared[i] = uint64(i + 1)
			}
			for a := range agents {
				own := append(slices.Clone(shared), uint64(1000+a), uint64(100_000+a))
				x.Insert(a, own)
			}
			ask := append(slices.Clone(shared), 1005, 100_005)
			b.ReportAllocs()
			for b.Loop() {
				x.Match(ask)
			}
		})
	}
}
