package agent

import (
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

// TestSSEBound: whether a usage event near the bound is left out depends on its
// length and not on how it was read (invariant 7).
func TestSSEBound(t *testing.T) {
	const head, end = `data: {"choices":[],"usage":{"prompt_tokens":1},"x":"`, "\"}\n\n"
	for _, length := range []int{maxHeld - 1, maxHeld, maxHeld + 1, maxHeld + 1000} {
		event := head + strings.Repeat("y", length-len(head)-len(end)) + end
		want := ""
		if length > maxHeld {
			want = event
		}
		for _, step := range []int{1, 100, 2048, 1 << 20} {
			s := &sseStream{api: bus.Chat, strip: true}
			if got := pass(s, event, func(left int) int { return min(left, step) }); got != want {
				t.Errorf("%d bytes, %d at a time: %d bytes pass, want %d", length, step, len(got), len(want))
			}
		}
	}
}
