package simulate

import "github.com/tokenbus/tokenbus/bus/peek"

// charsPerToken is what a token takes of a prompt.
const charsPerToken = 4

// engineBlock is the size of a block of an engine's cache, in characters.
const engineBlock = 256

// span is a piece of text that is the same wherever it stands: a system prompt, a
// message, an answer.
type span struct {
	id    uint64
	chars int
}

func length(text []span) int {
	n := 0
	for _, s := range text {
		n += s.chars
	}
	return n
}

// blocks cuts a text into blocks and gives their chained hashes. size is that of the
// i-th block, 0 behind the last one; what is left at the end has no hash.
func blocks(text []span, size func(i int) int) []uint64 {
	var hashes []uint64
	h, left := uint64(0), size(0)
	for _, s := range text {
		for at := 0; at < s.chars && left > 0; {
			n := min(left, s.chars-at)
			h = mix(h ^ s.id ^ uint64(at)<<32 ^ uint64(n))
			at += n
			if left -= n; left == 0 {
				hashes = append(hashes, h)
				left = size(len(hashes))
			}
		}
	}
	return hashes
}

func engineSize(int) int { return engineBlock }

// indexBlocks are the blocks of a prompt as the gateway cuts them.
func indexBlocks(text []span) peek.Prefix { return blocks(text, peek.BlockBytes) }

// mix spreads the bits of a number (the finaliser of SplitMix64).
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
