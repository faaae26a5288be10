package agent

import (
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

// TestSSEEnd: what stands behind the end does not hide it, and what is not the end
// does not look like it (invariant 6).
func TestSSEEnd(t *testing.T) {
	const (
		done   = "data: [DONE]\n\n"
		choice = `data: {"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
		first  = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	)
	cases := map[string]struct {
		api    bus.API
		stream string
		want   bool
	}{
		"comments that say data behind it":     {bus.Chat, done + ": no data\n\n: no data\n\n: no data\n\n", true},
		"events without data behind it":        {bus.Chat, done + "retry: 1\n\nid: 2\n\nevent: ping\n\n", true},
		"one of two choices finished":          {bus.Chat, choice + first + choice, false},
		"finished, then half an event":         {bus.Chat, first + `data: {"choices":[],"us`, false},
		"an error that is null":                {bus.Chat, `data: {"error":null,"choices":[]}` + "\n\n", false},
		"a marker in a comment":                {bus.Chat, choice + ": data: [DONE]\n\n", false},
		"a marker of another event":            {bus.Chat, choice + "data: x [DONE]\n\n", false},
		"a type within text":                   {bus.Messages, `data: {"type":"content_block_delta","delta":{"text":"\"type\":\"message_stop\""}}` + "\n\n", false},
		"a type within an object":              {bus.Messages, `data: {"type":"ping","x":{"type":"message_stop"}}` + "\n\n", false},
		"an error of the Messages API":         {bus.Messages, "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error"}}` + "\n\n", true},
		"an incomplete response is an end":     {bus.Responses, "event: response.incomplete\n" + `data: {"type":"response.incomplete"}` + "\n\n", true},
		"a name without its event":             {bus.Responses, "event: response.completed\n\n", false},
		"the end in CRLF":                      {bus.Completions, "data: {\"choices\":[]}\r\n\r\ndata: [DONE]\r\n\r\n", true},
		"the end in CR":                        {bus.Messages, "event: message_stop\rdata: {\"type\":\"message_stop\"}\r\r", true},
		"the end in two lines, as JSON may be": {bus.Messages, "data: {\"type\":\ndata: \"message_stop\"}\n\n", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{1, 5, 1 << 20} {
				s := &sseStream{api: c.api}
				pass(s, c.stream, func(left int) int { return min(left, step) })
				if got := s.finished(); got != c.want {
					t.Errorf("%d at a time: finished is %v, want %v", step, got, c.want)
				}
			}
		})
	}
}
