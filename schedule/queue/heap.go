package queue

// heap is a binary heap whose elements know their index, so that they can move
// and leave from the middle.
type heap[E any] struct {
	s      []E
	before func(a, b E) bool
	at     func(E) *int // where an element keeps its index
}

// top is the first element. The heap must not be empty.
func (h *heap[E]) top() E { return h.s[0] }

func (h *heap[E]) push(e E) {
	*h.at(e) = len(h.s)
	h.s = append(h.s, e)
	h.up(len(h.s) - 1)
}

// remove takes out an element, which must be in the heap.
func (h *heap[E]) remove(e E) {
	i, last := *h.at(e), len(h.s)-1
	h.swap(i, last)
	clear(h.s[last:])
	h.s = h.s[:last]
	if i < last {
		h.fix(h.s[i])
	}
}

// fix moves an element to its place after its rank changed.
func (h *heap[E]) fix(e E) {
	i := *h.at(e)
	h.up(i)
	h.down(*h.at(e))
}

// init orders elements that were put into s without push.
func (h *heap[E]) init() {
	for i, e := range h.s {
		*h.at(e) = i
	}
	for i := len(h.s)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *heap[E]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(h.s[i], h.s[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *heap[E]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.s) {
			return
		}
		if right := child + 1; right < len(h.s) && h.before(h.s[right], h.s[child]) {
			child = right
		}
		if !h.before(h.s[child], h.s[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

func (h *heap[E]) swap(i, j int) {
	h.s[i], h.s[j] = h.s[j], h.s[i]
	*h.at(h.s[i]), *h.at(h.s[j]) = i, j
}
