package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestModel compares the queues with plain slices.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Queues[int]{MaxDepth: rapid.IntRange(0, 6).Draw(t, "depth")}
		want := make(map[string][]*Item[int])
		var gone []*Item[int]
		next := 0
		model := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "model") }
		remove := func(m string, i int) {
			it := want[m][i]
			q.Remove(it)
			want[m] = slices.Delete(want[m], i, i+1)
			gone = append(gone, it)
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				m := model(t)
				next++
				it, err := q.Push(m, next)
				if full := len(want[m]) >= q.MaxDepth; full != (err != nil) {
					t.Fatalf("depth %d of %d: %v", len(want[m]), q.MaxDepth, err)
				}
				if err == nil {
					want[m] = append(want[m], it)
				}
			},
			"push back": func(t *rapid.T) {
				m := model(t)
				next++
				want[m] = slices.Insert(want[m], 0, q.PushFront(m, next))
			},
			"remove": func(t *rapid.T) {
				if m := model(t); len(want[m]) > 0 {
					remove(m, rapid.IntRange(0, len(want[m])-1).Draw(t, "at"))
				}
			},
			"remove again": func(*rapid.T) {
				for _, it := range gone {
					q.Remove(it)
				}
			},
			"": func(t *rapid.T) {
				total := 0
				for _, m := range []string{"a", "b"} {
					var got, exp []int
					for it := q.Front(m); it != nil; it = it.Next() {
						got = append(got, it.Value)
					}
					for _, it := range want[m] {
						exp = append(exp, it.Value)
					}
					if !slices.Equal(got, exp) || q.Depth(m) != len(exp) {
						t.Fatalf("queue %s: %v (%d), want %v", m, got, q.Depth(m), exp)
					}
					total += len(exp)
				}
				if q.Len() != total {
					t.Fatalf("%d wait, want %d", q.Len(), total)
				}
				q.Models(func(m string, n int) {
					if n != len(want[m]) || n == 0 {
						t.Fatalf("model %s has %d", m, n)
					}
				})
			},
		})
	})
}
