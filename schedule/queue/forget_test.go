package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestForget tells that what is kept for tenants that do not wait is bounded.
func TestForget(t *testing.T) {
	q := &Fair[int]{MaxDepth: 10, remember: 5}
	for i := range 100 {
		k := Key{Model: fmt.Sprint(i / 10), Tenant: fmt.Sprint(i), Band: i % 3, Tokens: 10}
		it, _, err := q.Push(k, i)
		if err != nil {
			t.Fatal(err)
		}
		q.Take(it)
		kept := 0
		for _, m := range q.models {
			for _, b := range m.bands {
				if len(b.tenants) == 0 {
					t.Fatal("an empty band is kept")
				}
				kept += len(b.tenants)
			}
		}
		if want := min(i+1, 5); kept != want || q.idle.n != want {
			t.Fatalf("%d tenants kept (%d idle), want %d", kept, q.idle.n, want)
		}
	}
	if len(q.models) != 1 {
		t.Errorf("%d models kept", len(q.models))
	}
	if q.known(Key{Model: "9", Tenant: "94", Band: 94 % 3}) != nil || q.known(Key{Model: "9", Tenant: "95", Band: 95 % 3}) == nil {
		t.Error("not the longest idle is forgotten")
	}
	// One that is forgotten while its request is away may still return it.
	it, _, _ := q.Push(Key{Model: "m", Tenant: "x", Tokens: 10, Bytes: 3}, 0)
	q.Take(it)
	for i := range 10 {
		other, _, _ := q.Push(Key{Model: "n", Tenant: fmt.Sprint(i)}, i)
		q.Take(other)
	}
	q.Charge("m", "x", 0, 5)
	q.Return(it)
	if q.Depth("m") != 1 || q.Position(it) != 0 || q.Bytes() != 3 {
		t.Errorf("depth %d, position %d, %d bytes", q.Depth("m"), q.Position(it), q.Bytes())
	}
}

// TestForgetLosesNothing tells that whoever waits is not forgotten, however few
// tenants are remembered.
func TestForgetLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &Fair[int]{MaxDepth: 30, remember: rapid.IntRange(1, 3).Draw(t, "remember")}
		var wait, gone []*FairItem[int]
		move := func(t *rapid.T, from, to *[]*FairItem[int], do func(*FairItem[int])) {
			if len(*from) == 0 {
				t.Skip("nothing there")
			}
			i := rapid.IntRange(0, len(*from)-1).Draw(t, "at")
			it := (*from)[i]
			do(it)
			*from = slices.Delete(*from, i, i+1)
			*to = append(*to, it)
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				k := drawKey(t)
				k.Band = max(k.Band, 0)
				if it, _, err := q.Push(k, 0); err == nil {
					wait = append(wait, it)
				}
			},
			"take":   func(t *rapid.T) { move(t, &wait, &gone, q.Take) },
			"return": func(t *rapid.T) { move(t, &gone, &wait, q.Return) },
			"remove": func(t *rapid.T) { move(t, &wait, new([]*FairItem[int]), q.Remove) },
			"": func(t *rapid.T) {
				given := make(map[*FairItem[int]]bool)
				for _, m := range testModels {
					for it := range q.Each(m) {
						if given[it] || !slices.Contains(wait, it) {
							t.Fatalf("%+v is given twice or does not wait", it.Key())
						}
						given[it] = true
					}
				}
				kept, active := 0, 0
				for _, m := range q.models {
					for _, b := range m.bands {
						kept += len(b.tenants)
						active += len(b.active.s)
					}
				}
				if len(given) != len(wait) || q.Len() != len(wait) {
					t.Fatalf("%d of %d given, %d counted", len(given), len(wait), q.Len())
				}
				if idle := kept - active; idle != q.idle.n || idle > q.remember {
					t.Fatalf("%d idle tenants kept, %d counted, %d allowed", idle, q.idle.n, q.remember)
				}
			},
		})
	})
}
