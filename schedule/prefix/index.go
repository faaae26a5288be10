package prefix

// Index holds the blocks of all agents. Agents are small dense numbers that its user
// assigns. It is not safe for concurrent use.
type Index struct {
	most    int // entries that may exist
	size    func(i int) int
	holders map[uint64][]holder // by hash
	entries map[uint64]int32    // nodes by hash and agent, see key
	nodes   []node
	free    int32 // first unused node, linked by next
	count   int
	shelf   []shelf // by agent
	used    int     // agents with at least one entry

	depth   []int32 // scratch of Match: blocks matched, by agent
	touched []int32 // agents whose depth is not 0
}

// node is one block in the cache of one agent.
type node struct {
	hash        uint64
	agent, size int32
	prev, next  int32 // in the agent's list, the most recently used first
	place       int32 // among the holders of the hash
}

// holder is an agent that holds a block.
type holder struct{ agent, node int32 }

// key joins a hash and an agent. Two pairs with one key are as unlikely as two
// blocks with one hash.
func key(hash uint64, agent int) uint64 {
	k := (hash ^ uint64(agent+1)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return k ^ k>>32
}

// shelf is the cache of one agent.
type shelf struct {
	head, tail  int32
	count       int
	bytes, room int64
}

const none = -1

// New makes an index of at most the given number of entries (one block at one
// agent), about 100 bytes each. size gives the content bytes of the i-th block of a
// prompt.
func New(entries int, size func(i int) int) *Index {
	return &Index{most: max(entries, 1), size: size, holders: make(map[uint64][]holder), entries: make(map[uint64]int32), free: none}
}

// SetRoom bounds the cache of an agent in bytes of content; 0 leaves only the bound
// of the index.
func (x *Index) SetRoom(agent int, bytes int64) {
	x.grow(agent)
	x.shelf[agent].room = bytes
	x.trim(agent)
}

// Len is the number of entries.
func (x *Index) Len() int { return x.count }

// Bytes is the content that the agent is believed to hold.
func (x *Index) Bytes(agent int) int64 {
	if agent >= len(x.shelf) {
		return 0
	}
	return x.shelf[agent].bytes
}

func (x *Index) grow(agent int) {
	for len(x.shelf) <= agent {
		x.shelf = append(x.shelf, shelf{head: none, tail: none})
		x.depth = append(x.depth, 0)
	}
}

// Match finds how many leading blocks of a prompt each agent holds. The answer is
// read with [Index.Depth] and is good until the next call that changes anything.
func (x *Index) Match(prompt []uint64) {
	for _, a := range x.touched {
		x.depth[a] = 0
	}
	x.touched = x.touched[:0]
	for i, h := range prompt {
		further := false
		for _, e := range x.holders[h] {
			if x.depth[e.agent] != int32(i) {
				continue
			}
			if i == 0 {
				x.touched = append(x.touched, e.agent)
			}
			x.depth[e.agent] = int32(i + 1)
			further = true
		}
		if !further {
			return
		}
	}
}

// Depth is the number of leading blocks that an agent holds of the prompt of the
// last [Index.Match].
func (x *Index) Depth(agent int) int {
	if agent >= len(x.depth) {
		return 0
	}
	return int(x.depth[agent])
}

// Insert notes that an agent gets a prompt, and returns how many of its leading
// blocks it held before.
func (x *Index) Insert(agent int, prompt []uint64) (held int) {
	x.grow(agent)
	for held < len(prompt) && x.find(agent, prompt[held]) != none {
		held++
	}
	// From the end to the beginning: the beginning, which other prompts share, must
	// be the last to leave, as in the engine.
	for i := len(prompt) - 1; i >= 0; i-- {
		if n := x.find(agent, prompt[i]); n != none {
			x.unlink(n)
			x.link(n)
			continue
		}
		x.add(agent, prompt[i], int32(x.size(i)))
	}
	x.trim(agent)
	return held
}

// Drop forgets blocks of an agent: the prompt that brought them failed.
func (x *Index) Drop(agent int, blocks []uint64) {
	for _, h := range blocks {
		if n := x.find(agent, h); n != none {
			x.remove(n)
		}
	}
}

// Purge forgets everything of an agent.
func (x *Index) Purge(agent int) {
	if agent >= len(x.shelf) {
		return
	}
	for x.shelf[agent].head != none {
		x.remove(x.shelf[agent].head)
	}
}

func (x *Index) find(agent int, hash uint64) int32 {
	if n, ok := x.entries[key(hash, agent)]; ok {
		return n
	}
	return none
}

func (x *Index) add(agent int, hash uint64, size int32) {
	n := x.free
	if n != none {
		x.free = x.nodes[n].next
	} else {
		n = int32(len(x.nodes))
		x.nodes = append(x.nodes, node{})
	}
	all := x.holders[hash]
	x.nodes[n] = node{hash: hash, agent: int32(agent), size: size, place: int32(len(all))}
	x.holders[hash] = append(all, holder{int32(agent), n})
	x.entries[key(hash, agent)] = n
	x.count++
	x.link(n)
}

// link puts a node at the front of its agent's list.
func (x *Index) link(n int32) {
	e := &x.nodes[n]
	s := &x.shelf[e.agent]
	e.prev, e.next = none, s.head
	if s.head != none {
		x.nodes[s.head].prev = n
	} else {
		s.tail = n
		x.used++
	}
	s.head = n
	s.count++
	s.bytes += int64(e.size)
}

// unlink takes a node out of its agent's list.
func (x *Index) unlink(n int32) {
	e := &x.nodes[n]
	s := &x.shelf[e.agent]
	if e.prev != none {
		x.nodes[e.prev].next = e.next
	} else {
		s.head = e.next
	}
	if e.next != none {
		x.nodes[e.next].prev = e.prev
	} else {
		s.tail = e.prev
	}
	s.count--
	s.bytes -= int64(e.size)
	if s.count == 0 {
		x.used--
	}
}

// remove forgets a node.
func (x *Index) remove(n int32) {
	x.unlink(n)
	e := &x.nodes[n]
	all := x.holders[e.hash]
	last := len(all) - 1
	all[e.place] = all[last]
	x.nodes[all[e.place].node].place = e.place
	if last == 0 {
		delete(x.holders, e.hash)
	} else {
		x.holders[e.hash] = all[:last]
	}
	delete(x.entries, key(e.hash, int(e.agent)))
	e.next = x.free
	x.free = n
	x.count--
}

// trim removes what is beyond an agent's room, and beyond its fair part of the index
// when that is full.
func (x *Index) trim(agent int) {
	s := &x.shelf[agent]
	for s.room > 0 && s.bytes > s.room && s.count > 0 {
		x.remove(s.tail)
	}
	for x.count > x.most && s.count > 0 {
		if s.count > x.most/x.used {
			x.remove(s.tail)
			continue
		}
		x.remove(x.shelf[x.largest()].tail)
	}
}

// largest is the agent with the most entries.
func (x *Index) largest() int {
	best := 0
	for i := range x.shelf {
		if x.shelf[i].count > x.shelf[best].count {
			best = i
		}
	}
	return best
}
