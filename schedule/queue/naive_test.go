package queue

import (
	"cmp"
	"slices"
)

// naive is the same queue without any thought for speed: one slice, sorted when
// asked.
type naive struct {
	maxDepth, maxBytes int
	wait               []*entry
	gone               []*entry
	seq                int
	counters           map[share]int64
	last               map[share]share // by model and band
}

// share is one tenant of one band.
type share struct {
	model  string
	band   int
	tenant string
}

type entry struct {
	it    *FairItem[int]
	key   Key
	seq   int
	taken bool
}

func (e *entry) share() share { return share{e.key.Model, e.key.Band, e.key.Tenant} }

func (n *naive) count(f func(Key) bool) (count, bytes int) {
	for _, e := range n.wait {
		if f(e.key) {
			count++
			bytes += e.key.Bytes
		}
	}
	return count, bytes
}

// push gives the values to shed, newest first.
func (n *naive) push(k Key) (e *entry, shed []int, err error) {
	kept := slices.Clone(n.wait)
	give := func(ok func(Key) bool) bool {
		if k.Band == Sheddable {
			return false
		}
		newest := -1
		for i, e := range n.wait {
			if e.key.Band == Sheddable && ok(e.key) && (newest < 0 || e.seq > n.wait[newest].seq) {
				newest = i
			}
		}
		if newest < 0 {
			return false
		}
		shed = append(shed, n.wait[newest].seq)
		n.gone = append(n.gone, n.wait[newest])
		n.wait = slices.Delete(slices.Clone(n.wait), newest, newest+1)
		return true
	}
	same := func(o Key) bool { return o.Model == k.Model }
	for {
		if d, _ := n.count(same); d < n.maxDepth {
			break
		}
		if !give(same) {
			n.wait, n.gone = kept, n.gone[:len(n.gone)-len(shed)]
			return nil, nil, ErrFull
		}
	}
	for n.maxBytes > 0 {
		if _, b := n.count(func(Key) bool { return true }); b+k.Bytes <= n.maxBytes {
			break
		}
		if !give(func(o Key) bool { return o.Bytes > 0 }) {
			n.wait, n.gone = kept, n.gone[:len(n.gone)-len(shed)]
			return nil, nil, ErrBytes
		}
	}
	n.seq++
	e = &entry{key: k, seq: n.seq}
	n.enter(e, 0)
	return e, shed, nil
}

func (n *naive) enter(e *entry, refund int64) {
	s := e.share()
	floor, active := int64(0), false
	if last, ok := n.last[share{model: s.model, band: s.band}]; ok {
		floor = n.counters[last]
	}
	for _, o := range n.wait {
		u := o.share()
		if u == s {
			floor, active = 0, true
			break
		}
		if u.model == s.model && u.band == s.band {
			if !active || n.counters[u] < floor {
				floor = n.counters[u]
			}
			active = true
		}
	}
	n.counters[s] = max(n.counters[s], floor)
	n.counters[s] = max(n.counters[s]-refund, 0)
	e.taken = false
	n.wait = append(n.wait, e)
}

func (n *naive) leave(e *entry, taken bool) {
	i := slices.Index(n.wait, e)
	n.wait = slices.Delete(n.wait, i, i+1)
	n.gone = append(n.gone, e)
	if e.taken = taken; taken {
		s := e.share()
		n.counters[s] += e.key.Tokens
		n.last[share{model: s.model, band: s.band}] = s
	}
}

func (n *naive) giveBack(e *entry) {
	i := slices.Index(n.gone, e)
	n.gone = slices.Delete(n.gone, i, i+1)
	n.enter(e, e.key.Tokens)
}

// next is who is served first of those given, with the counters given.
func next(wait []*entry, counters map[share]int64) *entry {
	head := make(map[share]*entry)
	for _, e := range wait {
		if h := head[e.share()]; h == nil || e.seq < h.seq {
			head[e.share()] = e
		}
	}
	var first *entry
	for _, e := range head {
		if first == nil || cmp.Or(
			cmp.Compare(first.key.Band, e.key.Band),
			cmp.Compare(counters[e.share()], counters[first.share()]),
			cmp.Compare(e.seq, first.seq),
		) < 0 {
			first = e
		}
	}
	return first
}

func (n *naive) of(model string) []*entry {
	var wait []*entry
	for _, e := range n.wait {
		if e.key.Model == model {
			wait = append(wait, e)
		}
	}
	return wait
}
