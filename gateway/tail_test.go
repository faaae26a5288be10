package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// feed lets a tail see text in pieces.
func feed(t *tail, text string, cut func(left int) int) *tail {
	for len(text) > 0 {
		n := cut(len(text))
		t.saw([]byte(text[:n]))
		text = text[n:]
	}
	return t
}

func newTail(api bus.API) *tail { return &tail{api: api, number: -1} }

func TestSeparator(t *testing.T) {
	long := strings.Repeat("x", 3*tailBytes)
	cases := map[string]struct {
		text string
		ends bool // at the end of an event: nothing must stand between
	}{
		"nothing": {"", true}, "LF": {"data: a\n\n", true}, "CRLF": {"data: a\r\n\r\n", true}, "CR": {"data: a\r\r", true},
		"half a line": {"data: a", false}, "one line": {"data: a\n", false}, "one line, CRLF": {"data: a\r\n", false}, "half an end": {"data: a\r\n\r", false},
		"long": {long + "\n\n", true}, "long, half": {long, false}, "comment": {": keep-alive\n\n", true},
	}
	for name, c := range cases {
		for _, step := range []int{1, 2, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d at a time", name, step), func(t *testing.T) {
				seen := feed(newTail(bus.Chat), c.text, func(left int) int { return min(left, step) })
				if sep := seen.separator(); (sep == nil) != c.ends {
					t.Errorf("%q is followed by %q", c.text, sep)
				}
			})
		}
	}
}

// TestTailKeepsTheEnd: the tail is the end of what was seen, whatever the split,
// and no longer than its bound (invariant 10).
func TestTailKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(0, 2000, -1).Draw(rt, "text")
		seen := feed(newTail(bus.Chat), text, func(left int) int { return rapid.IntRange(1, min(left, 700)).Draw(rt, "cut") })
		if want := text[max(0, len(text)-tailBytes):]; string(seen.last) != want {
			rt.Fatalf("got %q, want %q", seen.last, want)
		}
	})
}

// TestTailResponses: the error event of a Responses stream follows the events
// before it: it has their response id and the next sequence number, wherever the
// reads were split.
func TestTailResponses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(rt, "events")
		var b bytes.Buffer
		for i := range n {
			id := ""
			if i == 0 {
				id = `"id":"resp_abc","object":"response",`
			}
			fmt.Fprintf(&b, "event: e\ndata: {\"type\":\"e\",\"response\":{%s\"x\":1},\"sequence_number\":%d}\n\n", id, i)
		}
		most := rapid.SampledFrom([]int{5, 100, 2048}).Draw(rt, "most") // 2 KiB is what an agent reads at a time
		seen := feed(newTail(bus.Responses), b.String(), func(left int) int { return rapid.IntRange(1, min(left, most)).Draw(rt, "cut") })
		if seen.number != int64(n-1) || seen.responseID != "resp_abc" {
			rt.Fatalf("after %d events: number %d, id %q", n, seen.number, seen.responseID)
		}
	})
}

// TestTailOdd: a stream without numbers, and one of another API, tell none.
func TestTailOdd(t *testing.T) {
	cases := map[string]struct {
		api    bus.API
		text   string
		number int64
		id     string
	}{
		"nothing":     {bus.Responses, "", -1, ""},
		"no number":   {bus.Responses, "data: {}\n\n", -1, ""},
		"too large":   {bus.Responses, `data: {"sequence_number":99999999999999999999}`, -1, ""},
		"not a count": {bus.Responses, `data: {"sequence_number":null}`, -1, ""},
		"another API": {bus.Chat, `data: {"id":"resp_x","sequence_number":5}`, -1, ""},
		"item ids":    {bus.Responses, `data: {"id":"msg_1","sequence_number":5}`, 5, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			seen := feed(newTail(c.api), c.text, func(left int) int { return left })
			if seen.number != c.number || seen.responseID != c.id {
				t.Errorf("got %d, %q", seen.number, seen.responseID)
			}
		})
	}
}

func BenchmarkTail(b *testing.B) {
	chunk := []byte("data: {\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n")
	for name, api := range map[string]bus.API{"chat": bus.Chat, "responses": bus.Responses} {
		b.Run(name, func(b *testing.B) {
			seen := newTail(api)
			b.ReportAllocs()
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				seen.saw(chunk)
			}
		})
	}
}
