package simulate

// cache is the prefix cache of an engine: what it has really computed. Blocks have
// one size; the least recently used leave.
type cache struct {
	most       int
	places     map[uint64]int32
	blocks     []cached
	head, tail int32 // most and least recently used
	free       int32
}

type cached struct {
	hash       uint64
	prev, next int32
}

const nowhere = -1

func newCache(blocks int) *cache {
	return &cache{most: blocks, places: make(map[uint64]int32), head: nowhere, tail: nowhere, free: nowhere}
}

// held counts the leading blocks that are there.
func (c *cache) held(blocks []uint64) int {
	for i, h := range blocks {
		if _, ok := c.places[h]; !ok {
			return i
		}
	}
	return len(blocks)
}

// put makes blocks the most recently used, the first one last to leave.
func (c *cache) put(blocks []uint64) {
	for i := len(blocks) - 1; i >= 0; i-- {
		n, ok := c.places[blocks[i]]
		switch {
		case ok:
			c.unlink(n)
		case c.free != nowhere:
			n = c.free
			c.free = c.blocks[n].next
		default:
			n = int32(len(c.blocks))
			c.blocks = append(c.blocks, cached{})
		}
		c.blocks[n].hash = blocks[i]
		c.places[blocks[i]] = n
		c.link(n)
	}
	for len(c.places) > c.most {
		n := c.tail
		c.unlink(n)
		delete(c.places, c.blocks[n].hash)
		c.blocks[n].next = c.free
		c.free = n
	}
}

func (c *cache) link(n int32) {
	c.blocks[n].prev, c.blocks[n].next = nowhere, c.head
	if c.head != nowhere {
		c.blocks[c.head].prev = n
	} else {
		c.tail = n
	}
	c.head = n
}

func (c *cache) unlink(n int32) {
	b := &c.blocks[n]
	if b.prev != nowhere {
		c.blocks[b.prev].next = b.next
	} else {
		c.head = b.next
	}
	if b.next != nowhere {
		c.blocks[b.next].prev = b.prev
	} else {
		c.tail = b.prev
	}
}
