// Package queue holds requests that wait for room, one queue a model, first come
// first served. It is pure: it knows no clock and no bus.
package queue

import "errors"

// ErrFull tells that a queue has reached its bound.
var ErrFull = errors.New("the queue is full")

// Queues are the waiting requests of all models. It is not safe for concurrent
// use.
type Queues[T any] struct {
	// MaxDepth bounds each queue in count.
	MaxDepth int

	models map[string]*list[T]
	total  int
}

// Item is a waiting request. It knows its place, so that it can leave from the
// middle.
type Item[T any] struct {
	Value      T
	model      string
	prev, next *Item[T]
	in         *list[T]
}

type list[T any] struct {
	head, tail *Item[T]
	n          int
}

// Push puts a request at the end of its model's queue.
func (q *Queues[T]) Push(model string, v T) (*Item[T], error) {
	if q.Depth(model) >= q.MaxDepth {
		return nil, ErrFull
	}
	l := q.list(model)
	it := &Item[T]{Value: v, model: model, in: l, prev: l.tail}
	if l.tail != nil {
		l.tail.next = it
	} else {
		l.head = it
	}
	l.tail = it
	l.n++
	q.total++
	return it, nil
}

// PushFront puts a request back at the front: it was there before, so no bound
// applies.
func (q *Queues[T]) PushFront(model string, v T) *Item[T] {
	l := q.list(model)
	it := &Item[T]{Value: v, model: model, in: l, next: l.head}
	if l.head != nil {
		l.head.prev = it
	} else {
		l.tail = it
	}
	l.head = it
	l.n++
	q.total++
	return it
}

func (q *Queues[T]) list(model string) *list[T] {
	if q.models == nil {
		q.models = make(map[string]*list[T])
	}
	l := q.models[model]
	if l == nil {
		l = &list[T]{}
		q.models[model] = l
	}
	return l
}

// Front is the request that has waited longest for a model, nil if none does.
func (q *Queues[T]) Front(model string) *Item[T] {
	if l := q.models[model]; l != nil {
		return l.head
	}
	return nil
}

// Next is the request behind it, nil at the end.
func (it *Item[T]) Next() *Item[T] { return it.next }

// Remove takes a request out of its queue. Removing it again does nothing.
func (q *Queues[T]) Remove(it *Item[T]) {
	l := it.in
	if l == nil {
		return
	}
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		l.head = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		l.tail = it.prev
	}
	it.prev, it.next, it.in = nil, nil, nil
	l.n--
	q.total--
	if l.n == 0 {
		delete(q.models, it.model)
	}
}

// Depth is the number of requests that wait for a model.
func (q *Queues[T]) Depth(model string) int {
	if l := q.models[model]; l != nil {
		return l.n
	}
	return 0
}

// Len is the number of requests that wait.
func (q *Queues[T]) Len() int { return q.total }

// Models calls f with each model that has a waiting request.
func (q *Queues[T]) Models(f func(model string, depth int)) {
	for m, l := range q.models {
		f(m, l.n)
	}
}
