package sim

import "hash/maphash"

// prefixCache is the set of prompt blocks whose keys and values the simulated
// engine still holds, least recently used first to leave. A block is named by
// a hash of its characters chained with the block before it, so a block can
// only be found below its whole prefix.
type prefixCache struct {
	room  int // in blocks
	nodes map[uint64]*prefixNode
	list  prefixNode // ring: list.next is the most recently used
}

type prefixNode struct {
	key        uint64
	prev, next *prefixNode
}

// blockSeed is per process: block hashes are never shown.
var blockSeed = maphash.MakeSeed()

func newPrefixCache(room int) *prefixCache {
	c := &prefixCache{room: room}
	c.reset()
	return c
}

func (c *prefixCache) reset() {
	c.nodes = make(map[uint64]*prefixNode)
	c.list.prev, c.list.next = &c.list, &c.list
}

// use returns how many of the leading blocks are held, looking at no more than
// the first usable, and then holds all of them. Blocks are touched from the
// end of the prompt to its start, so that the tail leaves before the head.
func (c *prefixCache) use(blocks []uint64, usable int) (held int) {
	for held < usable && c.nodes[blocks[held]] != nil {
		held++
	}
	if len(blocks) > c.room {
		blocks = blocks[:c.room]
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		n := c.nodes[blocks[i]]
		if n == nil {
			n = &prefixNode{key: blocks[i]}
			c.nodes[n.key] = n
		} else {
			n.prev.next, n.next.prev = n.next, n.prev
		}
		n.prev, n.next = &c.list, c.list.next
		n.prev.next, n.next.prev = n, n
	}
	for len(c.nodes) > c.room {
		last := c.list.prev
		last.prev.next, c.list.prev = &c.list, last.prev
		delete(c.nodes, last.key)
	}
	return held
}

// blockKeys returns the chained keys of the full blocks of size characters in
// the prompt. The salt separates adapters and tenants that share no blocks.
func blockKeys(salt, prompt string, size int) []uint64 {
	keys := make([]uint64, 0, len(prompt)/size)
	chain := maphash.String(blockSeed, salt)
	start, chars := 0, 0
	for i := range len(prompt) {
		// A byte that starts the next character closes a full block.
		if prompt[i]&0xC0 == 0x80 {
			continue
		}
		if chars == size {
			chain = mix(chain ^ maphash.String(blockSeed, prompt[start:i]))
			keys = append(keys, chain)
			start, chars = i, 0
		}
		chars++
	}
	if chars == size {
		keys = append(keys, mix(chain^maphash.String(blockSeed, prompt[start:])))
	}
	return keys
}
