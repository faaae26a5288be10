package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// drawStream makes a stream of events in one style of line ends, and the same
// without the events that hold only usage.
func drawStream(t *rapid.T) (all, stripped string, used bus.Usage) {
	eol := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "eol")
	for range rapid.IntRange(0, 8).Draw(t, "events") {
		var lines []string
		only := false
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			lines = []string{": comment"}
		case 1:
			lines = []string{"event: x", "id: 7", "data: a", "data: b"}
		case 2:
			lines = []string{`data:{"choices":[{"delta":{"content":"é \"usage\""}}],"usage":null}`}
		case 3:
			u := bus.Usage{Prompt: int64(rapid.IntRange(1, 99).Draw(t, "prompt")), Completion: int64(rapid.IntRange(0, 99).Draw(t, "completion"))}
			lines = []string{fmt.Sprintf(`data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, u.Prompt, u.Completion)}
			used.Prompt, used.Completion = max(used.Prompt, u.Prompt), max(used.Completion, u.Completion)
			only = true
		case 4:
			lines = []string{`data: {"choices":[{"index":0}],"usage":{"prompt_tokens":3}}`}
			used.Prompt = max(used.Prompt, 3)
		case 5:
			lines = []string{"data: [DONE]"}
		}
		event := strings.Join(lines, eol) + eol + eol
		all += event
		if !only {
			stripped += event
		}
	}
	if rapid.Bool().Draw(t, "unfinished") {
		all += "data: half"
		stripped += "data: half"
	}
	return all, stripped, used
}

// pass feeds a stream in pieces.
func pass(s *sseStream, all string, cut func(left int) int) string {
	var out bytes.Buffer
	for p := []byte(all); len(p) > 0; {
		n := cut(len(p))
		out.Write(s.feed(append([]byte(nil), p[:n]...)))
		p = p[n:]
	}
	out.Write(s.flush())
	return out.String()
}

// Whatever the split, a stream passes as it is, or without exactly its usage
// events (invariant 7), and the usage is metered.
func TestSSESplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, stripped, used := drawStream(t)
		cut := func(left int) int { return rapid.IntRange(1, min(left, 40)).Draw(t, "cut") }
		for strip, want := range map[bool]string{false: all, true: stripped} {
			s := &sseStream{api: bus.Chat, strip: strip}
			if got := pass(s, all, cut); got != want {
				t.Fatalf("strip %v:\n got %q\nwant %q\nfrom %q", strip, got, want, all)
			}
			if s.used != used {
				t.Fatalf("usage is %v, want %v", s.used, used)
			}
		}
	})
}

func TestSSEUsage(t *testing.T) {
	cases := map[string]struct {
		api    bus.API
		stream string
		want   bus.Usage
	}{
		"chat":       {bus.Chat, `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}}` + "\n\n", bus.Usage{Prompt: 5, Completion: 7, Cached: 2}},
		"continuous": {bus.Chat, `data: {"choices":[{}],"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n" + `data: {"choices":[{}],"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n", bus.Usage{Prompt: 5, Completion: 2}},
		"responses":  {bus.Responses, "event: response.completed\n" + `data: {"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":4,"input_tokens_details":{"cached_tokens":1}}}}` + "\n\n", bus.Usage{Prompt: 3, Completion: 4, Cached: 1}},
		"messages":   {bus.Messages, `data: {"type":"message_start","message":{"usage":{"input_tokens":9,"output_tokens":1}}}` + "\n\n" + `data: {"type":"message_delta","usage":{"output_tokens":6}}` + "\n\n", bus.Usage{Prompt: 9, Completion: 6}},
		"odd":        {bus.Chat, `data: {"choices":"x","usage":"y"}` + "\n\n", bus.Usage{}},
	}
	for name, c := range cases {
		s := &sseStream{api: c.api}
		s.feed([]byte(c.stream))
		if s.used != c.want {
			t.Errorf("%s: got %v, want %v", name, s.used, c.want)
		}
	}
}

func TestSSEFinished(t *testing.T) {
	chunk := func(text string) string {
		return `data: {"choices":[{"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
	}
	cases := map[string]struct {
		api    bus.API
		stream string
		want   bool
	}{
		"done":               {bus.Chat, chunk("a") + "data: [DONE]\n\n", true},
		"done, half a line":  {bus.Chat, chunk("a") + "data: [DONE]", true},
		"finish reason":      {bus.Chat, `data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n", true},
		"error":              {bus.Chat, `data: {"error":{"message":"x"}}` + "\n\n", true},
		"text":               {bus.Chat, chunk("[DONE]") + chunk(`\"finish_reason\":\"stop\"`), false},
		"nothing":            {bus.Chat, "", false},
		"comment behind it":  {bus.Chat, "data: [DONE]\n\n: bye\n\n: bye\n\n: bye\n\n: bye\n\n", true},
		"responses":          {bus.Responses, "event: response.completed\n" + `data: {"type":"response.completed","error":null}` + "\n\n", true},
		"responses, long":    {bus.Responses, "event: response.completed\n" + `data: {"type":"response.completed","x":"` + strings.Repeat("y", 100<<10) + `"}` + "\n\n", true},
		"responses, not yet": {bus.Responses, "event: response.created\n" + `data: {"type":"response.created","response":{"error":null}}` + "\n\n", false},
		"messages":           {bus.Messages, `data: {"type":"message_stop"}` + "\n\n", true},
		"messages, not yet":  {bus.Messages, `data: {"type":"content_block_stop"}` + "\n\n", false},
		"another api":        {bus.Transcriptions, "data: x\n\n", true},
	}
	for name, c := range cases {
		for _, strip := range []bool{false, true} {
			s := &sseStream{api: c.api, strip: strip}
			for p := []byte(c.stream); len(p) > 0; {
				n := min(len(p), 1000)
				s.feed(p[:n])
				p = p[n:]
			}
			if got := s.finished(); got != c.want {
				t.Errorf("%s, strip %v: %v, want %v", name, strip, got, c.want)
			}
		}
	}
}

// FuzzSSE: the split changes nothing.
func FuzzSSE(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[],\"usage\":{}}\r\n\r\ndata: [DONE]\n\n"), uint8(3))
	f.Add([]byte(": x\r\rdata:\"usage\"\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, all []byte, step uint8) {
		for _, strip := range []bool{false, true} {
			whole, parts := &sseStream{api: bus.Chat, strip: strip}, &sseStream{api: bus.Chat, strip: strip}
			a := pass(whole, string(all), func(left int) int { return left })
			b := pass(parts, string(all), func(left int) int { return min(left, int(step%64)+1) })
			if a != b || whole.used != parts.used {
				t.Fatalf("strip %v: whole %q (%v), in parts %q (%v)", strip, a, whole.used, b, parts.used)
			}
			if !strip && a != string(all) {
				t.Fatalf("invariant 7: %q became %q", all, a)
			}
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n")
	s := &sseStream{api: bus.Chat, strip: true}
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		s.feed(chunk)
	}
}
