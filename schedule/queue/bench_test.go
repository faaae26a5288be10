package queue

import (
	"fmt"
	"testing"
)

const benchDepth = 10_000

func filled(b *testing.B, tenants int) (*Fair[int], []string) {
	b.Helper()
	q := &Fair[int]{MaxDepth: benchDepth + 1, MaxBytes: 1 << 30}
	names := make([]string, tenants)
	for i := range names {
		names[i] = fmt.Sprint("tenant-", i)
	}
	for i := range benchDepth {
		k := Key{Model: "m", Tenant: names[i%tenants], Tokens: int64(100 + i%977), Bytes: 100}
		if _, _, err := q.Push(k, i); err != nil {
			b.Fatal(err)
		}
	}
	return q, names
}

func BenchmarkPushTake(b *testing.B) {
	for _, tenants := range []int{1, 100, benchDepth} {
		b.Run(fmt.Sprint("tenants=", tenants), func(b *testing.B) {
			q, names := filled(b, tenants)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := Key{Model: "m", Tenant: names[i%tenants], Tokens: int64(100 + i%977), Bytes: 100}
				if _, _, err := q.Push(k, i); err != nil {
					b.Fatal(err)
				}
				takeNext(q, "m")
			}
		})
	}
}

// BenchmarkSkip leaves the first request waiting and takes the second.
func BenchmarkSkip(b *testing.B) {
	for _, tenants := range []int{1, 100, benchDepth} {
		b.Run(fmt.Sprint("tenants=", tenants), func(b *testing.B) {
			q, _ := filled(b, tenants)
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				for it := range q.Each("m") {
					if n++; n == 2 {
						q.Take(it)
						q.Return(it)
						break
					}
				}
			}
		})
	}
}

func BenchmarkPosition(b *testing.B) {
	q, _ := filled(b, 100)
	var last *FairItem[int]
	for it := range q.Each("m") {
		last = it
	}
	b.ReportAllocs()
	for b.Loop() {
		q.Position(last)
	}
}

// TestAllocations tells what a request costs that waits and is served, with its
// tenant known: itself.
func TestAllocations(t *testing.T) {
	q := &Fair[int]{MaxDepth: 10}
	pass := func() {
		if _, _, err := q.Push(Key{Model: "m", Tenant: "x"}, 1); err != nil {
			t.Fatal(err)
		}
		takeNext(q, "m")
	}
	pass()
	if n := testing.AllocsPerRun(100, pass); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
