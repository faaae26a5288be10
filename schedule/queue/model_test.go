package queue

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var testModels = []string{"a", "b"}

func drawKey(t *rapid.T) Key {
	return Key{
		Model:  rapid.SampledFrom(testModels).Draw(t, "model"),
		Tenant: rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "tenant"),
		Band:   rapid.SampledFrom([]int{-1, -1, 0, 0, 0, 7}).Draw(t, "band"),
		Tokens: rapid.Int64Range(1, 9).Draw(t, "tokens"),
		Bytes:  rapid.IntRange(0, 5).Draw(t, "bytes"),
	}
}

// TestFairModel compares the queue with the naive one.
func TestFairModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		depth, bytes := rapid.SampledFrom([]int{30, 9, 3, 0}).Draw(t, "depth"), rapid.SampledFrom([]int{0, 50, 20}).Draw(t, "max bytes")
		q := &Fair[int]{MaxDepth: depth, MaxBytes: bytes}
		n := &naive{maxDepth: depth, maxBytes: bytes, counters: make(map[share]int64), last: make(map[share]share)}
		of := func(t *rapid.T, wait []*entry) *entry {
			if len(wait) == 0 {
				t.Skip("nothing there")
			}
			return rapid.SampledFrom(wait).Draw(t, "entry")
		}
		push := func(t *rapid.T) {
			k := drawKey(t)
			e, wantShed, wantErr := n.push(k)
			it, shed, err := q.Push(k, n.seq)
			if !errors.Is(err, wantErr) || !slices.Equal(shed, wantShed) {
				t.Fatalf("pushed %+v: shed %v, %v; want %v, %v", k, shed, err, wantShed, wantErr)
			}
			if err == nil {
				e.it = it
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 12).Draw(t, "requests") {
					push(t)
				}
			},
			"take": func(t *rapid.T) {
				e := of(t, n.wait)
				n.leave(e, true)
				q.Take(e.it)
			},
			"remove": func(t *rapid.T) {
				e := of(t, n.wait)
				n.leave(e, false)
				q.Remove(e.it)
			},
			"return": func(t *rapid.T) {
				for range rapid.IntRange(1, 4).Draw(t, "requests") {
					e := of(t, n.gone)
					if e.taken {
						n.giveBack(e)
					}
					q.Return(e.it)
				}
			},
			"again": func(*rapid.T) {
				for _, e := range n.gone {
					q.Take(e.it)
					q.Remove(e.it)
				}
				for _, e := range n.wait {
					q.Return(e.it)
				}
			},
			"charge": func(t *rapid.T) {
				k := drawKey(t)
				by := rapid.Int64Range(-20, 20).Draw(t, "by")
				s := share{k.Model, k.Band, k.Tenant}
				if c, ok := n.counters[s]; ok {
					n.counters[s] = max(c+by, 0)
				}
				q.Charge(k.Model, k.Tenant, k.Band, by)
			},
			"loop": func(t *rapid.T) { loop(t, q, n) },
			"":     func(t *rapid.T) { compare(t, q, n) },
		})
	})
}

// loop takes, removes, returns and leaves what Each gives.
func loop(t *rapid.T, q *Fair[int], n *naive) {
	model := rapid.SampledFrom(testModels).Draw(t, "model")
	left, counters := n.of(model), maps.Clone(n.counters)
	stop := rapid.IntRange(0, len(left)).Draw(t, "stop")
	given := 0
	for it := range q.Each(model) {
		e := next(left, counters)
		if e == nil || e.it != it {
			t.Fatalf("loop gives %d, want %v", it.Value, e)
		}
		left = slices.DeleteFunc(left, func(o *entry) bool { return o == e })
		do := rapid.SampledFrom([]string{"leave", "take", "remove"}).Draw(t, "do")
		switch do {
		case "take":
			n.leave(e, true)
			q.Take(it)
		case "remove":
			n.leave(e, false)
			q.Remove(it)
		}
		if do != "remove" {
			counters[e.share()] += e.key.Tokens
		}
		if given++; given > stop {
			return
		}
	}
	if len(left) > 0 {
		t.Fatalf("loop ended before %d requests", len(left))
	}
}

func compare(t *rapid.T, q *Fair[int], n *naive) {
	models := make(map[string]int)
	for _, m := range testModels {
		wait, counters := n.of(m), maps.Clone(n.counters)
		if len(wait) > 0 {
			models[m] = len(wait)
		}
		if q.Depth(m) != len(wait) {
			t.Fatalf("depth %d, want %d", q.Depth(m), len(wait))
		}
		position := 0
		for it := range q.Each(m) {
			e := next(wait, counters)
			if e == nil || e.it != it || it.Value != e.seq || it.Key() != e.key {
				t.Fatalf("%s gives %d at %d, want %+v", m, it.Value, position, e)
			}
			if p := q.Position(it); p != position {
				t.Fatalf("%s: position %d, want %d", m, p, position)
			}
			position++
			counters[e.share()] += e.key.Tokens
			wait = slices.DeleteFunc(wait, func(o *entry) bool { return o == e })
		}
		if len(wait) > 0 {
			t.Fatalf("%s does not give %d requests", m, len(wait))
		}
	}
	if got := maps.Collect(q.Models()); !maps.Equal(got, models) {
		t.Fatalf("models %v, want %v", got, models)
	}
	_, bytes := n.count(func(Key) bool { return true })
	if q.Len() != len(n.wait) || q.Bytes() != bytes {
		t.Fatalf("%d requests of %d bytes, want %d of %d", q.Len(), q.Bytes(), len(n.wait), bytes)
	}
	for _, e := range n.gone {
		if q.Position(e.it) != -1 || e.it.Waiting() {
			t.Fatalf("%d is gone and waits", e.seq)
		}
	}
	for s, want := range n.counters {
		tn := q.known(Key{Model: s.model, Tenant: s.tenant, Band: s.band})
		if tn == nil || tn.counter != want {
			t.Fatalf("%+v has counter %+v, want %d", s, tn, want)
		}
	}
}
