package peek

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

const (
	maxRaw  = MaxBlocks * 8
	maxText = (maxRaw*8 + 5) / 6
)

// String writes the hashes, eight bytes each with the high one first, in base64 for
// URLs without padding. What is beyond MaxBlocks is left out.
func (p Prefix) String() string {
	var raw [maxRaw]byte
	var out [maxText]byte
	n := min(len(p), MaxBlocks)
	for i, h := range p[:n] {
		binary.BigEndian.PutUint64(raw[8*i:], h)
	}
	base64.RawURLEncoding.Encode(out[:], raw[:8*n])
	return string(out[:base64.RawURLEncoding.EncodedLen(8*n)])
}

// ParsePrefix is the inverse of [Prefix.String]. The result is in the memory of
// dst, if that is large enough; its elements are overwritten.
func ParsePrefix(s string, dst Prefix) (Prefix, error) {
	dst = dst[:0]
	var in [maxText]byte
	var raw [maxRaw]byte
	if len(s) > maxText {
		return dst, fmt.Errorf("a prefix of %d characters is longer than %d blocks", len(s), MaxBlocks)
	}
	n, err := base64.RawURLEncoding.Strict().Decode(raw[:], in[:copy(in[:], s)])
	if err != nil {
		return dst, fmt.Errorf("a prefix is not base64: %w", err)
	}
	// The decoder passes over line ends.
	if n%8 != 0 || base64.RawURLEncoding.EncodedLen(n) != len(s) {
		return dst, fmt.Errorf("a prefix of %d characters is not whole hashes", len(s))
	}
	for i := 0; i < n; i += 8 {
		dst = append(dst, binary.BigEndian.Uint64(raw[i:]))
	}
	return dst, nil
}
