package queue

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// takeNext serves the first request of a model.
func takeNext[T any](q *Fair[T], model string) *FairItem[T] {
	for it := range q.Each(model) {
		q.Take(it)
		return it
	}
	return nil
}

// TestFairness keeps tenants with requests of different sizes backlogged and
// compares what they were served: never further apart than the largest request,
// and over a long run nearly the same.
func TestFairness(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenants := rapid.IntRange(2, 5).Draw(t, "tenants")
		sizes := make([][]int64, tenants)
		largest := int64(0)
		for i := range sizes {
			sizes[i] = rapid.SliceOfN(rapid.Int64Range(1, 2000), 1, 4).Draw(t, "sizes")
			for _, s := range sizes[i] {
				largest = max(largest, s)
			}
		}
		q := &Fair[int]{MaxDepth: 100}
		pushed := make([]int, tenants)
		push := func(i int) {
			k := Key{Model: "m", Tenant: fmt.Sprint(i), Tokens: sizes[i][pushed[i]%len(sizes[i])]}
			pushed[i]++
			if _, _, err := q.Push(k, i); err != nil {
				t.Fatal(err)
			}
		}
		for i := range sizes {
			for range rapid.IntRange(1, 5).Draw(t, "backlog") {
				push(i)
			}
		}
		served := make([]int64, tenants)
		low, high := int64(0), int64(0)
		for low < 20*largest {
			// Before it leaves, so that its tenant stays backlogged.
			for it := range q.Each("m") {
				push(it.Value)
				break
			}
			it := takeNext(q, "m")
			served[it.Value] += it.Key().Tokens
			low, high = served[0], served[0]
			for _, s := range served {
				low, high = min(low, s), max(high, s)
			}
			if high-low > largest {
				t.Fatalf("served %v, with requests of %d at most", served, largest)
			}
		}
		if float64(high-low) > 0.1*float64(low) {
			t.Fatalf("served %v in a long run", served)
		}
	})
}

// TestNoCredit lets one tenant be idle while another is served, and tells how much
// of what follows it gets.
func TestNoCredit(t *testing.T) {
	push := func(q *Fair[int], tenant string, n int) (items []*FairItem[int]) {
		for range n {
			it, _, err := q.Push(Key{Model: "m", Tenant: tenant, Tokens: 10}, 0)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, it)
		}
		return items
	}
	serve := func(q *Fair[int], n int) map[string]int {
		got := make(map[string]int)
		for range n {
			got[takeNext(q, "m").Key().Tenant]++
		}
		return got
	}
	for name, c := range map[string]struct {
		before func(q *Fair[int])
		spare  int // requests that idle may be ahead at the end
	}{
		"new while another waits": {func(q *Fair[int]) {
			push(q, "busy", 60)
			serve(q, 40)
			push(q, "idle", 20)
		}, 0},
		"back while another waits": {func(q *Fair[int]) {
			push(q, "idle", 1)
			push(q, "busy", 60)
			serve(q, 41)
			push(q, "idle", 20)
		}, 0},
		"back while nobody waits": {func(q *Fair[int]) {
			push(q, "idle", 1)
			push(q, "busy", 40)
			serve(q, 41)
			push(q, "idle", 20)
			push(q, "busy", 20)
		}, 0},
		"cancelled and back": {func(q *Fair[int]) {
			push(q, "busy", 60)
			its := push(q, "idle", 1)
			q.Remove(its[0])
			serve(q, 40)
			push(q, "idle", 20)
		}, 0},
		"a request comes back late": {func(q *Fair[int]) {
			its := push(q, "idle", 1)
			push(q, "busy", 60)
			serve(q, 41)
			q.Return(its[0])
			push(q, "idle", 19)
		}, 1},
		"charged less while idle": {func(q *Fair[int]) {
			push(q, "idle", 1)
			push(q, "busy", 60)
			serve(q, 41)
			q.Charge("m", "idle", 0, -10)
			push(q, "idle", 20)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := &Fair[int]{MaxDepth: 100}
			c.before(q)
			got := serve(q, 20)
			if ahead := got["idle"] - got["busy"]; ahead < 0 || ahead > 2*c.spare {
				t.Errorf("served %v", got)
			}
		})
	}
}

// TestCharge tells that real usage moves later turns.
func TestCharge(t *testing.T) {
	q := &Fair[string]{MaxDepth: 10}
	items := mustPush(t, q, "m", "1 x 0 5 1", "2 x 0 5 1", "3 x 0 5 1", "4 y 0 5 1", "5 y 0 5 1", "6 y 0 5 1")
	checkOrder(t, q, "m", "1 4 2 5 3 6")
	q.Take(items["1"])
	q.Charge("m", "x", 0, 10) // 15
	checkOrder(t, q, "m", "4 5 6 2 3")
	q.Charge("m", "x", 0, -9) // 6
	checkOrder(t, q, "m", "4 5 2 6 3")
	q.Charge("m", "x", 0, -99) // 0
	q.Charge("m", "z", 0, -99)
	q.Charge("n", "x", 0, -99)
	q.Charge("m", "x", 1, -99)
	checkOrder(t, q, "m", "2 4 3 5 6")
}
