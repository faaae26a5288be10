package queue

import "iter"

// Each gives the requests that wait for a model in the order in which they would
// be served, if each one given were taken before the next. So a loop that leaves
// some waiting, because the free slot is not for them, still sees the others in
// fair order. A request that the loop removes was not served and does not count.
//
// The loop may take, remove or return requests; whether it sees what it pushes or
// returns is not said. The first request costs nothing, and neither does the next
// one in a loop that takes what it gets. A loop that leaves a request waiting and
// goes on makes Each look once at all tenants of the band.
func (q *Fair[T]) Each(model string) iter.Seq[*FairItem[T]] {
	return func(yield func(*FairItem[T]) bool) {
		for level := MaxBand + 1; ; {
			// Looked up anew: the loop may have emptied the model.
			m := q.models[model]
			if m == nil {
				return
			}
			b := m.below(level)
			if b == nil || !b.each(yield) {
				return
			}
			level = b.level
		}
	}
}

func (b *band[T]) each(yield func(*FairItem[T]) bool) bool {
	for len(b.active.s) > 0 {
		it := b.active.top().head
		if !yield(it) {
			return false
		}
		if it.in != nil {
			// From here on the counters differ from those in the order.
			return b.eachAfter(it, yield)
		}
	}
	return true
}

// cursor is where a tenant stands in an order that is only thought of.
type cursor[T any] struct {
	t       *tenant[T]
	counter int64
	next    *FairItem[T]
	at      int
}

func (c *cursor[T]) before(d *cursor[T]) bool {
	if c.counter != d.counter {
		return c.counter < d.counter
	}
	return c.next.seq < d.next.seq
}

// eachAfter goes on behind a request that was given and still waits.
func (b *band[T]) eachAfter(left *FairItem[T], yield func(*FairItem[T]) bool) bool {
	all := make([]cursor[T], len(b.active.s))
	h := heap[*cursor[T]]{before: (*cursor[T]).before, at: func(c *cursor[T]) *int { return &c.at }}
	h.s = make([]*cursor[T], 0, len(all))
	for i, t := range b.active.s {
		c := &all[i]
		c.t, c.counter, c.next = t, t.counter, t.head
		if t == left.in {
			c.counter, c.next = t.counter+left.key.Tokens, left.next
		}
		if c.next != nil {
			h.s = append(h.s, c)
		}
	}
	h.init()
	for len(h.s) > 0 {
		c := h.top()
		it := c.next
		if it.in != c.t { // the loop took it out of its turn
			c.next = c.t.after(it.seq)
		} else {
			c.next = it.next
			if !yield(it) {
				return false
			}
			if it.state != removed {
				c.counter += it.key.Tokens
			}
		}
		if c.next == nil {
			h.remove(c)
		} else {
			h.fix(c)
		}
	}
	return true
}

// Position is the number of requests that would be served before this one if
// nothing else came, -1 if it does not wait. It looks at every request that would
// be.
func (q *Fair[T]) Position(it *FairItem[T]) int {
	t := it.in
	if t == nil {
		return -1
	}
	b, n := t.band, 0
	for _, higher := range b.model.bands {
		if higher.level > b.level {
			n += higher.n
		}
	}
	// A request's turn comes when its tenant's counter has grown by those ahead of
	// it. Counters only grow on the way, so the order is that of these sums.
	turn := t.counter
	for j := t.head; j != it; j = j.next {
		turn += j.key.Tokens
	}
	for _, u := range b.active.s {
		at := u.counter
		for j := u.head; j != nil && (at < turn || at == turn && j.seq < it.seq); j = j.next {
			n++
			at += j.key.Tokens
		}
	}
	return n
}
