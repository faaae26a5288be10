package peek

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyText is JSON string content, of which some are files.
func anyText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.IntRange(0, 3000).Draw(t, "bytes")
		text := strings.Repeat(rapid.SampledFrom([]string{"word ", `\n`, `\"`, `\\`, "é", `[{"`[:1], "data:"}).Draw(t, "word"), n/4+1)
		return rapid.SampledFrom([]string{"", "data:image/png;base64,", "https://example.com/"}).Draw(t, "scheme") + text
	})
}

// TestGrowth: the hashes of a conversation begin with those that it had before, as
// long as the client writes it the same way.
func TestGrowth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(`{"role":%q,"content":[{"type":"text","text":"%s"}]}`, rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role"), anyText().Draw(t, "text"))
		})
		turns := rapid.SliceOfN(turn, 1, 8).Draw(t, "turns")
		tools := rapid.SliceOfN(turn, 0, 2).Draw(t, "tools")
		key := rapid.SampledFrom([]string{"messages", "input"}).Draw(t, "key")
		comma := rapid.SampledFrom([]string{",", ", ", ",\n  ", " , "}).Draw(t, "comma")
		around := rapid.SampledFrom([]string{"", " ", "\n  "}).Draw(t, "around")
		first := rapid.Bool().Draw(t, "tools first")
		var before Prefix
		for n := range len(turns) + 1 {
			list := fmt.Sprintf(`"%s":[%s%s%s]`, key, around, strings.Join(turns[:n], comma), around)
			other := fmt.Sprintf(`"tools":[%s]`, strings.Join(tools, comma))
			if first {
				list, other = other, list
			}
			now := hashes(t, fmt.Sprintf(`{"n":%d,%s%s%s,"max_tokens":%d}`, n+1, list, comma, other, n), 1)
			if same(before, now) != len(before) {
				t.Fatalf("turn %d changes block %d of %d", n, same(before, now), len(before))
			}
			before = now
		}
	})
}

// TestGrowingText: so do those of a prompt that is one string, or token ids.
func TestGrowingText(t *testing.T) {
	var text, ids, list Prefix
	for n := range 700 {
		words := strings.Repeat("word ", n)
		nowText := hashes(t, `{"prompt":"`+words+`"}`, 1)
		nowIDs := hashes(t, `{"prompt":[`+strings.TrimSuffix(strings.Repeat("1234,", n), ",")+`]}`, 1)
		nowList := hashes(t, `{"input":[`+strings.TrimSuffix(strings.Repeat(`"one", `, n), ", ")+`]}`, 1)
		if same(text, nowText) != len(text) || same(ids, nowIDs) != len(ids) || same(list, nowList) != len(list) {
			t.Fatalf("%d words change an earlier block", n)
		}
		text, ids, list = nowText, nowIDs, nowList
	}
	if len(text) < 13 || len(ids) < 13 || len(list) < 13 {
		t.Errorf("only %d, %d and %d blocks", len(text), len(ids), len(list))
	}
}
