package queue

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// mustPush pushes requests written "name tenant band tokens bytes" to model m.
func mustPush(t *testing.T, q *Fair[string], m string, requests ...string) map[string]*FairItem[string] {
	t.Helper()
	items := make(map[string]*FairItem[string])
	for _, r := range requests {
		name, k := parse(t, m, r)
		it, shed, err := q.Push(k, name)
		if err != nil || shed != nil {
			t.Fatalf("%s: shed %v, %v", r, shed, err)
		}
		items[name] = it
	}
	return items
}

func parse(t *testing.T, m, r string) (string, Key) {
	t.Helper()
	k := Key{Model: m}
	var name string
	if _, err := fmt.Sscan(r, &name, &k.Tenant, &k.Band, &k.Tokens, &k.Bytes); err != nil {
		t.Fatalf("%q: %v", r, err)
	}
	return name, k
}

func checkOrder(t *testing.T, q *Fair[string], m, want string) {
	t.Helper()
	var got []string
	for it := range q.Each(m) {
		got = append(got, it.Value)
	}
	if s := strings.Join(got, " "); s != want {
		t.Errorf("order of %s: %q, want %q", m, s, want)
	}
}

func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		push []string
		want string
	}{
		"nothing":             {nil, ""},
		"first come":          {[]string{"1 x 0 5 1", "2 x 0 1 1", "3 x 0 9 1"}, "1 2 3"},
		"higher band first":   {[]string{"1 x -1 1 1", "2 x 0 1 1", "3 x 9 1 1", "4 y 9 1 1"}, "3 4 2 1"},
		"by turns":            {[]string{"1 x 0 1 1", "2 x 0 1 1", "3 x 0 1 1", "4 y 0 1 1", "5 y 0 1 1"}, "1 4 2 5 3"},
		"by tokens":           {[]string{"1 x 0 3 1", "2 x 0 3 1", "3 y 0 1 1", "4 y 0 1 1", "5 y 0 1 1", "6 y 0 1 1"}, "1 3 4 5 2 6"},
		"bands share alone":   {[]string{"1 x 1 9 1", "2 x 0 1 1", "3 y 0 1 1"}, "1 2 3"},
		"above the last band": {[]string{"1 x 100 1 1", "2 x 9999 1 1", "3 x 99 1 1"}, "1 2 3"},
		"below the first":     {[]string{"1 x -9 1 1", "2 x -1 1 1"}, "1 2"},
		"no tokens count 1":   {[]string{"1 x 0 0 1", "2 x 0 -4 1", "3 y 0 1 1"}, "1 3 2"},
	} {
		t.Run(name, func(t *testing.T) {
			q := &Fair[string]{MaxDepth: 10}
			mustPush(t, q, "m", c.push...)
			checkOrder(t, q, "m", c.want)
			var taken []string
			for it := range q.Each("m") {
				taken = append(taken, it.Value)
				q.Take(it)
			}
			if s := strings.Join(taken, " "); s != c.want {
				t.Errorf("taken %q, want %q", s, c.want)
			}
			if q.Len() != 0 || q.Bytes() != 0 || q.Depth("m") != 0 {
				t.Errorf("empty has %d of %d bytes", q.Len(), q.Bytes())
			}
		})
	}
}

func TestModelsApart(t *testing.T) {
	q := &Fair[string]{MaxDepth: 2}
	mustPush(t, q, "m", "1 x 0 9 1", "2 x 0 9 1")
	mustPush(t, q, "n", "3 x 0 1 1", "4 y 0 1 1")
	checkOrder(t, q, "n", "3 4")
	checkOrder(t, q, "m", "1 2")
}

func TestReturnKeepsPlace(t *testing.T) {
	q := &Fair[string]{MaxDepth: 4}
	items := mustPush(t, q, "m", "1 x 0 2 1", "2 x 0 2 1", "3 y 0 3 1", "4 x 0 2 1")
	const order = "1 3 2 4"
	checkOrder(t, q, "m", order)
	for _, back := range []string{"1 2 4 3", "4 3 2 1", "2 1", "3"} {
		for name := range strings.FieldsSeq(back) {
			q.Take(items[name])
			q.Take(items[name])
		}
		for name := range strings.FieldsSeq(back) {
			q.Return(items[name])
			q.Return(items[name])
		}
		checkOrder(t, q, "m", order)
	}
	// The bound does not apply, and cannot be passed by a new one.
	q.Take(items["1"])
	mustPush(t, q, "m", "5 y 0 1 1")
	q.Return(items["1"])
	if q.Len() != 5 || q.Bytes() != 5 {
		t.Errorf("%d requests of %d bytes, want 5", q.Len(), q.Bytes())
	}
	if _, _, err := q.Push(Key{Model: "m"}, "6"); !errors.Is(err, ErrFull) {
		t.Errorf("above the bound: %v", err)
	}
	q.Remove(items["2"])
	q.Return(items["2"])
	checkOrder(t, q, "m", "1 3 4 5")
}

func TestBounds(t *testing.T) {
	for name, c := range map[string]struct {
		m, n  []string // waiting
		push  string   // to m
		shed  []string
		err   error
		order string // of m
	}{
		"full": {
			m: []string{"1 x 0 1 1", "2 x 0 1 1", "3 x 0 1 1"}, push: "4 x 100 1 1",
			err: ErrFull, order: "1 2 3",
		},
		"sheddable newcomer": {
			m: []string{"1 x -1 1 1", "2 x -1 1 1", "3 x -1 1 1"}, push: "4 x -1 1 1",
			err: ErrFull, order: "1 2 3",
		},
		"newest shed": {
			m: []string{"1 x -1 1 1", "2 y -1 1 1", "3 x 0 1 1"}, push: "4 x 0 1 1",
			shed: []string{"2"}, order: "3 4 1",
		},
		"count sheds its own model only": {
			m: []string{"1 x 0 1 1", "2 x 0 1 1", "3 x 0 1 1"}, n: []string{"5 x -1 1 1"}, push: "4 x 0 1 1",
			err: ErrFull, order: "1 2 3",
		},
		"bytes": {
			m: []string{"1 x 0 1 6"}, push: "4 x 0 1 5",
			err: ErrBytes, order: "1",
		},
		"bytes just fit": {
			m: []string{"1 x 0 1 6"}, push: "4 x 0 1 4",
			order: "1 4",
		},
		"bytes of a sheddable newcomer": {
			m: []string{"1 x -1 1 6"}, push: "4 x -1 1 5",
			err: ErrBytes, order: "1",
		},
		"bytes shed from any model": {
			m: []string{"1 x -1 1 3"}, n: []string{"5 x -1 1 3", "6 x -1 1 3"}, push: "4 x 0 1 7",
			shed: []string{"6", "5"}, order: "4 1",
		},
		"nothing shed in vain": {
			m: []string{"1 x 0 1 3"}, n: []string{"5 x -1 1 3", "6 x -1 1 3"}, push: "4 x 0 1 8",
			err: ErrBytes, order: "1",
		},
		"both bounds": {
			m: []string{"1 x 0 1 1", "2 x 0 1 1", "3 x -1 1 1"}, n: []string{"5 x -1 1 5"}, push: "4 x 0 1 4",
			shed: []string{"3", "5"}, order: "1 2 4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := &Fair[string]{MaxDepth: 3, MaxBytes: 10}
			mustPush(t, q, "m", c.m...)
			mustPush(t, q, "n", c.n...)
			value, k := parse(t, "m", c.push)
			it, shed, err := q.Push(k, value)
			if !errors.Is(err, c.err) || !slices.Equal(shed, c.shed) || (it == nil) != (err != nil) {
				t.Errorf("shed %v, %v; want %v, %v", shed, err, c.shed, c.err)
			}
			checkOrder(t, q, "m", c.order)
		})
	}
}

func TestZeroDepth(t *testing.T) {
	var q Fair[int]
	if _, _, err := q.Push(Key{Model: "m", Band: 1}, 1); !errors.Is(err, ErrFull) {
		t.Errorf("nothing may wait: %v", err)
	}
	for range q.Each("m") {
		t.Error("something waits")
	}
	q.Charge("m", "x", 0, 1)
}

// TestHugeClaims tells that a counter does not overflow into the lowest one.
func TestHugeClaims(t *testing.T) {
	q := &Fair[string]{MaxDepth: 10}
	mustPush(t, q, "m", "1 x 0 9223372036854775807 1", "2 x 0 9223372036854775807 1", "3 y 0 1 1", "4 y 0 1 1")
	checkOrder(t, q, "m", "1 3 4 2")
	for it := range q.Each("m") {
		q.Take(it)
		q.Charge("m", "x", 0, math.MaxInt64)
		break
	}
	checkOrder(t, q, "m", "3 4 2")
	q.Charge("m", "x", 0, math.MinInt64)
	q.Charge("m", "x", 0, math.MinInt64)
	q.Charge("m", "x", 0, math.MinInt64)
	checkOrder(t, q, "m", "2 3 4")
}

// TestLoopTakesOthers changes more inside the loop than what it gave.
func TestLoopTakesOthers(t *testing.T) {
	q := &Fair[string]{MaxDepth: 10}
	items := mustPush(t, q, "m", "1 x 0 1 1", "2 x 0 1 1", "3 x 0 1 1", "4 y 0 1 1", "5 y 0 1 1", "6 z -1 1 1")
	var got []string
	for it := range q.Each("m") {
		got = append(got, it.Value)
		switch it.Value {
		case "1":
			q.Take(it)
			q.Return(it)
		case "4":
			q.Remove(items["4"])
			q.Take(items["2"])
			q.Take(items["1"])
		case "3":
			q.Remove(items["5"])
		}
	}
	if s := strings.Join(got, " "); s != "1 4 5 3 6" {
		t.Errorf("loop gave %q", s)
	}
	checkOrder(t, q, "m", "3 6")
}
