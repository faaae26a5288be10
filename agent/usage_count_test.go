package agent

import (
	"encoding/json"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

func TestCount(t *testing.T) {
	cases := map[string]struct {
		obj  string
		want int64
	}{
		"plain": {`{"k":5}`, 5}, "spaces": {"{\"k\" \t:\r\n 5 }", 5}, "none": {`{}`, 0}, "no text": {``, 0}, "null": {`{"k":null}`, 0},
		"negative": {`{"k":-5}`, 0}, "a string": {`{"k":"5"}`, 0}, "not quoted": {`{k:5}`, 0}, "half quoted": {`{k":5}`, 0}, "no colon": {`{"k" 5}`, 0},
		"only the key": {`{"k"`, 0}, "only the colon": {`{"k":`, 0}, "as a value first": {`{"a":"k","k":5}`, 5}, "within a key first": {`{"xk":4,"kx":3,"k":5}`, 5},
		"zero": {`{"k":0}`, 0}, "the largest exact": {`{"k":9007199254740992}`, 1 << 53},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := count([]byte(c.obj), "k"); got != c.want {
				t.Errorf("%s: %d, want %d", c.obj, got, c.want)
			}
		})
	}
	if got := count([]byte(`{"k":99999999999999999999999999}`), "k"); got < 0 {
		t.Errorf("a number beyond all bounds counts %d", got)
	}
}

// TestUsageWithin: only the counts of the usage object itself are metered, not
// those of an object within it; a stream and a body are metered alike.
func TestUsageWithin(t *testing.T) {
	for name, obj := range map[string]string{
		"behind":  `{"input_tokens":5,"output_tokens":2,"iterations":[{"input_tokens":900,"output_tokens":800}]}`,
		"before":  `{"iterations":[{"input_tokens":900,"output_tokens":800}],"input_tokens":5,"output_tokens":2}`,
		"details": `{"completion_tokens_details":{"prompt_tokens":9},"prompt_tokens":5,"completion_tokens":2}`,
		"draft":   `{"output_tokens_details":{"cached_tokens":9},"prompt_tokens":5,"completion_tokens":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			want := bus.Usage{Prompt: 5, Completion: 2}
			var text usageText
			if err := json.Unmarshal([]byte(obj), &text); err != nil {
				t.Fatal(err)
			}
			var decoded, read bus.Usage
			text.merge(&decoded)
			if readUsage([]byte(obj), &read); decoded != want || read != want {
				t.Errorf("a stream is metered as %v, a body as %v, want %v", decoded, read, want)
			}
		})
	}
}
