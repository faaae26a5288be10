package peek

import (
	"encoding/binary"
	"sort"

	"github.com/cespare/xxhash/v2"
)

// Prefix identifies the beginning of a prompt by chained hashes of its blocks: two
// prompts with the same first n blocks have the same first n hashes. The i-th block
// has [BlockBytes] bytes; what is left at the end of a prompt has no hash.
//
// The blocks are cut from the bytes of the body as the client wrote them, and not
// from what they mean: the same client writes the same conversation the same way,
// so its hashes stay while the conversation grows, and nothing is decoded.
type Prefix []uint64

// Short prompts need small blocks, long ones few of them. An engine's own blocks,
// of some 16 tokens, are smaller still.
const (
	smallBlocks, smallBlock   = 128, 256
	mediumBlocks, mediumBlock = 96, 1 << 10
	largeBlocks, largeBlock   = 96, 8 << 10

	// MaxBlocks is the greatest length of a Prefix. It covers 896 KiB of content.
	MaxBlocks = smallBlocks + mediumBlocks + largeBlocks
)

// BlockBytes is the size of the i-th block of any prompt, 0 if there is none.
func BlockBytes(i int) int {
	switch {
	case i < 0 || i >= MaxBlocks:
		return 0
	case i < smallBlocks:
		return smallBlock
	case i < smallBlocks+mediumBlocks:
		return mediumBlock
	}
	return largeBlock
}

// Bytes is the content that the hashes cover.
func (p Prefix) Bytes() int {
	n := min(len(p), MaxBlocks)
	small := min(n, smallBlocks)
	medium := min(n-small, mediumBlocks)
	return small*smallBlock + medium*mediumBlock + (n-small-medium)*largeBlock
}

// Seed makes the seed of a chain from what separates prompts that must not share
// their hashes, such as a model and a tenant.
func Seed(parts ...string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, part := range parts {
		// With its length before each part, no two lists have the same bytes.
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(part)))
		_, _ = d.Write(n[:])
		_, _ = d.WriteString(part)
	}
	return d.Sum64()
}

// mark stands before each section, so that what is in one is never taken for what
// is in another. No JSON text has a zero byte.
var mark = [sections][2]byte{
	toolsSection: {0, 't'}, systemSection: {0, 's'}, instructionsSection: {0, 'i'}, querySection: {0, 'q'},
	documentsSection: {0, 'd'}, messagesSection: {0, 'm'}, promptSection: {0, 'p'}, inputSection: {0, 'n'},
}

// inlineMark is the size of what stands in the place of an inline file: the byte 1,
// which no JSON text has either, and the hash of the string.
const inlineMark = 1 + 8

// Prefix hashes the prompt in body, which must be what the facts were read from:
// the sections in their order, each array without its brackets, so that a
// conversation begins with all that it was before. A string above 1 KiB that begins
// with "data:" counts as its hash. A cache_salt becomes a part of the seed. The
// result is in the memory of dst, if that is large enough; its elements are
// overwritten. A form has no blocks.
func (f *Facts) Prefix(body []byte, seed uint64, dst Prefix) Prefix {
	c := chain{hashes: dst[:0], last: seed}
	if f.size == 0 || f.size != len(body) {
		return c.hashes
	}
	if f.salt.present() {
		c.digest.ResetWithSeed(seed)
		_, _ = c.digest.Write(body[f.salt.from:f.salt.to])
		c.last = c.digest.Sum64()
	}
	c.next()
	for i, v := range f.sections {
		if !v.present() {
			continue
		}
		v = v.open(body)
		c.write(mark[i][:])
		at := v.from
		for _, in := range f.inlineIn(v) {
			if c.left == 0 {
				return c.hashes
			}
			c.write(body[at:in.from])
			var m [inlineMark]byte
			m[0] = 1
			binary.LittleEndian.PutUint64(m[1:], xxhash.Sum64(body[in.from:in.to]))
			c.write(m[:])
			at = in.to
		}
		c.write(body[at:v.to])
	}
	return c.hashes
}

// inlineIn gives the inline files within a span.
func (f *Facts) inlineIn(v span) []span {
	from := sort.Search(len(f.inline), func(i int) bool { return f.inline[i].from >= v.from })
	to := from + sort.Search(len(f.inline)-from, func(i int) bool { return f.inline[from+i].to > v.to })
	return f.inline[from:to]
}

// open takes off a value what moves when it grows: the brackets of an array with
// the space inside them, or the closing quote of a string.
func (s span) open(body []byte) span {
	switch body[s.from] {
	case '"':
		s.to--
	case '[':
		s.from++
		s.to--
		for s.from < s.to && blank(body[s.from]) {
			s.from++
		}
		for s.from < s.to && blank(body[s.to-1]) {
			s.to--
		}
	}
	return s
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// chain cuts what is written to it into blocks, wherever the writes begin and end.
type chain struct {
	hashes Prefix
	last   uint64 // hash of the block before
	digest xxhash.Digest
	left   int // bytes that the present block lacks, 0 behind the last one
}

// next begins a block.
func (c *chain) next() {
	if c.left = BlockBytes(len(c.hashes)); c.left == 0 {
		return
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], c.last)
	c.digest.Reset()
	_, _ = c.digest.Write(last[:])
}

func (c *chain) write(b []byte) {
	for c.left > 0 && len(b) > 0 {
		n := min(c.left, len(b))
		_, _ = c.digest.Write(b[:n])
		b = b[n:]
		if c.left -= n; c.left == 0 {
			c.last = c.digest.Sum64()
			c.hashes = append(c.hashes, c.last)
			c.next()
		}
	}
}
