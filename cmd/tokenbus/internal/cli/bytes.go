package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size in bytes. It reads plain numbers and whole numbers of KiB,
// MiB, GiB (powers of 1024), KB, MB and GB (powers of 1000), in any case, and
// prints the shortest of these forms that is exact.
type Bytes int64

// byteUnits are in the order of size, so the first exact one is the shortest.
var byteUnits = []struct {
	name string
	size int64
}{
	{"GiB", 1 << 30}, {"GB", 1e9},
	{"MiB", 1 << 20}, {"MB", 1e6},
	{"KiB", 1 << 10}, {"KB", 1e3},
	{"B", 1},
}

// UnmarshalText implements [encoding.TextUnmarshaler]. A negative size, a
// fraction and a size beyond 64 bits are errors.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	size, ok := unitSize(strings.TrimSpace(s[end:]))
	if end == 0 || !ok {
		return fmt.Errorf("%q is not a size; want a number of bytes, or one with KiB, MiB, GiB, KB, MB or GB", s)
	}
	n, err := strconv.ParseInt(s[:end], 10, 64)
	if err != nil || n > math.MaxInt64/size {
		return fmt.Errorf("the size %q is too large", s)
	}
	*b = Bytes(n * size)
	return nil
}

func unitSize(name string) (int64, bool) {
	if name == "" {
		return 1, true
	}
	for _, unit := range byteUnits {
		if strings.EqualFold(unit.name, name) {
			return unit.size, true
		}
	}
	return 0, false
}

// String implements [fmt.Stringer].
func (b Bytes) String() string {
	for _, unit := range byteUnits {
		if b != 0 && unit.size > 1 && int64(b)%unit.size == 0 {
			return strconv.FormatInt(int64(b)/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// MarshalText implements [encoding.TextMarshaler].
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
