package queue

import (
	"errors"
	"iter"
)

// ErrFull tells that a queue holds as many requests as it may.
var ErrFull = errors.New("the queue is full")

// ErrBytes tells that the queues hold as many bytes as they may.
var ErrBytes = errors.New("the queues hold as many bytes as they may")

const (
	// Sheddable is the lowest band. Its requests give way when a bound is reached.
	Sheddable = -1
	// MaxBand is the highest band.
	MaxBand = 100
	// MaxTokens is the most that one request counts for, so that no claim
	// overflows a counter.
	MaxTokens = 1 << 32
)

// rememberTenants bounds the counters kept for tenants that do not wait, over all
// models and bands: a bound for each of these would multiply to none. It comes to
// about 15 MB.
const rememberTenants = 1 << 16

// Key is what the queue knows of a request.
type Key struct {
	Model  string
	Tenant string
	Band   int   // Sheddable to MaxBand; beyond counts as the nearest of both
	Tokens int64 // expected cost, 1 to MaxTokens; beyond counts likewise
	Bytes  int
}

func (k Key) clamp() Key {
	k.Band = min(max(k.Band, Sheddable), MaxBand)
	k.Tokens = min(max(k.Tokens, 1), MaxTokens)
	k.Bytes = max(k.Bytes, 0)
	return k
}

// Fair is the waiting requests of all models. The zero value with its bounds set
// is ready. It is not safe for concurrent use.
type Fair[T any] struct {
	// MaxDepth bounds each model's queue in count. At 0 nothing may wait.
	MaxDepth int
	// MaxBytes bounds the queues of all models together. At 0 there is no bound.
	MaxBytes int

	models    map[string]*model[T] // with anybody waiting or remembered
	seq       uint64               // of the last request that came
	n         int
	bytes     int
	shed      heap[*FairItem[T]] // sheddable requests of all models that have bytes, newest first
	shedBytes int
	idle      idlers[T]
	remember  int // rememberTenants if 0
}

// state is where a request stands.
type state uint8

const (
	waiting state = iota
	taken
	removed
)

// FairItem is a request that waits or waited. It keeps its place, so that it can
// leave from the middle and come back.
type FairItem[T any] struct {
	Value T

	key        Key
	seq        uint64 // its age
	state      state
	in         *tenant[T] // while it waits
	prev, next *FairItem[T]
	atModel    int // in model.shed, while it waits and is sheddable
	atAll      int // in Fair.shed, likewise
}

// Key is what the request was pushed with, within the limits of each field.
func (it *FairItem[T]) Key() Key { return it.key }

// Waiting tells whether the request is in its queue.
func (it *FairItem[T]) Waiting() bool { return it.in != nil }

func (it *FairItem[T]) younger(than *FairItem[T]) bool { return it.seq > than.seq }

// Push puts a request behind the others of its tenant. At a bound, a request above
// the band Sheddable takes the place of the newest ones in that band: those of its
// model for the bound in count, those of any model for the bound in bytes. They
// have left then, and shed gives them for their owner to answer. If that does not
// make enough room, the error is ErrFull or ErrBytes and nothing has changed.
func (q *Fair[T]) Push(k Key, v T) (it *FairItem[T], shed []T, err error) {
	if q.models == nil {
		q.models = make(map[string]*model[T])
		q.shed = heap[*FairItem[T]]{before: (*FairItem[T]).younger, at: func(it *FairItem[T]) *int { return &it.atAll }}
	}
	k = k.clamp()
	if err := q.room(k); err != nil {
		return nil, nil, err
	}
	shed = q.makeRoom(k)
	q.seq++
	it = &FairItem[T]{Value: v, key: k, seq: q.seq}
	q.enter(it, 0)
	return it, shed, nil
}

// room tells whether a request fits, if all that may be shed for it were.
func (q *Fair[T]) room(k Key) error {
	n, bytes := 0, q.bytes
	m := q.models[k.Model]
	if m != nil {
		n = m.n
	}
	if k.Band > Sheddable {
		bytes -= q.shedBytes
		if m != nil {
			n -= len(m.shed.s)
		}
	}
	if n >= q.MaxDepth {
		return ErrFull
	}
	if q.MaxBytes > 0 && bytes+k.Bytes > q.MaxBytes {
		return ErrBytes
	}
	return nil
}

func (q *Fair[T]) makeRoom(k Key) (shed []T) {
	drop := func(it *FairItem[T]) {
		shed = append(shed, it.Value)
		q.Remove(it)
	}
	if m := q.models[k.Model]; m != nil {
		for m.n >= q.MaxDepth {
			drop(m.shed.top())
		}
	}
	for q.MaxBytes > 0 && q.bytes+k.Bytes > q.MaxBytes {
		drop(q.shed.top())
	}
	return shed
}

// Take removes a request because it is served, and charges its tenant for it. It
// does nothing unless the request waits.
func (q *Fair[T]) Take(it *FairItem[T]) {
	t := it.in
	if t == nil {
		return
	}
	t.add(it.key.Tokens)
	t.band.last = t
	q.leave(it, taken)
}

// Remove takes out a request that will not be served: it was cancelled, or its
// time is over. Its tenant is not charged. It does nothing unless the request
// waits.
func (q *Fair[T]) Remove(it *FairItem[T]) {
	if it.in != nil {
		q.leave(it, removed)
	}
}

// Return puts a request back that was taken but not served. It goes before the
// younger ones of its tenant, which gets its tokens back. No bound applies, since
// the request was let in before. It does nothing unless the request is taken.
//
// If the tenant has nothing else waiting, its counter is lifted first as in Push.
// So a request that comes back late need not wait for what was served meanwhile,
// but its tenant has no credit from that time.
func (q *Fair[T]) Return(it *FairItem[T]) {
	if it.in == nil && it.state == taken {
		q.enter(it, it.key.Tokens)
	}
}

func (q *Fair[T]) enter(it *FairItem[T], refund int64) {
	t := q.tenant(it.key)
	b := t.band
	begins := t.head == nil
	if begins {
		q.idle.remove(t)
		t.counter = max(t.counter, b.floor())
	}
	t.add(-refund)
	t.insert(it)
	if begins {
		b.active.push(t)
	} else {
		b.active.fix(t)
	}
	b.n++
	b.model.n++
	q.n++
	q.bytes += it.key.Bytes
	if it.key.Band == Sheddable {
		b.model.shed.push(it)
		if it.key.Bytes > 0 {
			q.shed.push(it)
			q.shedBytes += it.key.Bytes
		}
	}
}

func (q *Fair[T]) leave(it *FairItem[T], to state) {
	t := it.in
	b := t.band
	if it.key.Band == Sheddable {
		b.model.shed.remove(it)
		if it.key.Bytes > 0 {
			q.shed.remove(it)
			q.shedBytes -= it.key.Bytes
		}
	}
	b.n--
	b.model.n--
	q.n--
	q.bytes -= it.key.Bytes
	t.unlink(it)
	it.state = to
	if t.head != nil {
		b.active.fix(t)
		return
	}
	b.active.remove(t)
	q.idle.push(t)
	limit := q.remember
	if limit == 0 {
		limit = rememberTenants
	}
	for q.idle.n > limit {
		old := q.idle.oldest
		q.idle.remove(old)
		q.forget(old)
	}
}

// Charge corrects a tenant's counter by the tokens that a request really used
// beyond its estimate, less than 0 if it used fewer. It does nothing for a tenant
// that is not known, or not any more.
func (q *Fair[T]) Charge(model, tenant string, band int, tokens int64) {
	t := q.known(Key{Model: model, Tenant: tenant, Band: band}.clamp())
	if t == nil {
		return
	}
	t.add(tokens)
	if t.head != nil {
		t.band.active.fix(t)
	}
}

// Depth is the number of requests that wait for a model.
func (q *Fair[T]) Depth(model string) int {
	if m := q.models[model]; m != nil {
		return m.n
	}
	return 0
}

// Len is the number of requests that wait.
func (q *Fair[T]) Len() int { return q.n }

// Bytes is the size of all requests that wait.
func (q *Fair[T]) Bytes() int { return q.bytes }

// Models gives each model that has a waiting request, and how many, in no order.
// The loop may change the queues.
func (q *Fair[T]) Models() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for name, m := range q.models {
			if m.n > 0 && !yield(name, m.n) {
				return
			}
		}
	}
}
