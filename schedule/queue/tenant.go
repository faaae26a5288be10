package queue

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// model is the queue of one model, and the counters of those who waited in it.
type model[T any] struct {
	name  string
	bands []*band[T] // highest first
	n     int
	shed  heap[*FairItem[T]] // its sheddable requests, newest first
}

// band is one priority of one model.
type band[T any] struct {
	model   *model[T]
	level   int
	n       int
	tenants map[string]*tenant[T] // waiting or remembered
	active  heap[*tenant[T]]      // waiting
	last    *tenant[T]            // served last
}

// tenant is whoever shares a band.
type tenant[T any] struct {
	band       *band[T]
	name       string
	counter    int64 // tokens served
	head, tail *FairItem[T]
	at         int // in band.active, while it waits

	idle         bool // in Fair.idle
	older, newer *tenant[T]
}

// before tells who is served first of two tenants that wait.
func (t *tenant[T]) before(u *tenant[T]) bool {
	if t.counter != u.counter {
		return t.counter < u.counter
	}
	return t.head.seq < u.head.seq
}

// add moves the counter, which neither goes below 0 nor overflows.
func (t *tenant[T]) add(tokens int64) {
	tokens = min(max(tokens, -MaxTokens), MaxTokens)
	t.counter = min(max(t.counter+tokens, 0), math.MaxInt64/2)
}

// insert puts a request among the tenant's others by age.
func (t *tenant[T]) insert(it *FairItem[T]) {
	it.in, it.state = t, waiting
	next := (*FairItem[T])(nil)
	if t.tail != nil && t.tail.seq > it.seq {
		// It was taken before, so few are older.
		next = t.after(it.seq)
	}
	prev := t.tail
	if next != nil {
		prev = next.prev
	}
	it.prev, it.next = prev, next
	if prev != nil {
		prev.next = it
	} else {
		t.head = it
	}
	if next != nil {
		next.prev = it
	} else {
		t.tail = it
	}
}

func (t *tenant[T]) unlink(it *FairItem[T]) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		t.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		t.tail = it.prev
	}
	it.prev, it.next, it.in = nil, nil, nil
}

// after is the tenant's oldest request that is younger than seq, nil if none is.
func (t *tenant[T]) after(seq uint64) *FairItem[T] {
	it := t.head
	for it != nil && it.seq <= seq {
		it = it.next
	}
	return it
}

// floor is the least counter of a tenant that begins to wait.
func (b *band[T]) floor() int64 {
	switch {
	case len(b.active.s) > 0:
		return b.active.top().counter
	case b.last != nil:
		return b.last.counter
	}
	return 0
}

// below is the highest band under level in which somebody waits, nil if none is.
func (m *model[T]) below(level int) *band[T] {
	for _, b := range m.bands {
		if b.level < level && b.n > 0 {
			return b
		}
	}
	return nil
}

func (m *model[T]) find(level int) (int, bool) {
	return slices.BinarySearchFunc(m.bands, level, func(b *band[T], level int) int {
		return cmp.Compare(level, b.level)
	})
}

// known gives a tenant that waits or is remembered, nil otherwise.
func (q *Fair[T]) known(k Key) *tenant[T] {
	m := q.models[k.Model]
	if m == nil {
		return nil
	}
	i, ok := m.find(k.Band)
	if !ok {
		return nil
	}
	return m.bands[i].tenants[k.Tenant]
}

// tenant gives a request's tenant and makes what does not exist yet. The names are
// copied: they outlive the request, which they may be a part of.
func (q *Fair[T]) tenant(k Key) *tenant[T] {
	m := q.models[k.Model]
	if m == nil {
		m = &model[T]{name: strings.Clone(k.Model)}
		m.shed = heap[*FairItem[T]]{before: (*FairItem[T]).younger, at: func(it *FairItem[T]) *int { return &it.atModel }}
		q.models[m.name] = m
	}
	i, ok := m.find(k.Band)
	if !ok {
		b := &band[T]{model: m, level: k.Band, tenants: make(map[string]*tenant[T])}
		b.active = heap[*tenant[T]]{before: (*tenant[T]).before, at: func(t *tenant[T]) *int { return &t.at }}
		m.bands = slices.Insert(m.bands, i, b)
	}
	b := m.bands[i]
	t := b.tenants[k.Tenant]
	if t == nil {
		t = &tenant[T]{band: b, name: strings.Clone(k.Tenant)}
		b.tenants[t.name] = t
	}
	return t
}

// forget drops a tenant that does not wait, and what is empty without it.
func (q *Fair[T]) forget(t *tenant[T]) {
	b := t.band
	delete(b.tenants, t.name)
	if len(b.tenants) > 0 {
		return
	}
	m := b.model
	if i, ok := m.find(b.level); ok {
		m.bands = slices.Delete(m.bands, i, i+1)
	}
	if len(m.bands) == 0 {
		delete(q.models, m.name)
	}
}

// idlers are the remembered tenants of all models, a list by when they stopped
// waiting.
type idlers[T any] struct {
	oldest, newest *tenant[T]
	n              int
}

func (l *idlers[T]) push(t *tenant[T]) {
	t.idle, t.older, t.newer = true, l.newest, nil
	if l.newest != nil {
		l.newest.newer = t
	} else {
		l.oldest = t
	}
	l.newest = t
	l.n++
}

func (l *idlers[T]) remove(t *tenant[T]) {
	if !t.idle {
		return
	}
	if t.older != nil {
		t.older.newer = t.newer
	} else {
		l.oldest = t.newer
	}
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		l.newest = t.older
	}
	t.idle, t.older, t.newer = false, nil, nil
	l.n--
}
