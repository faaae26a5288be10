package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// Parts of a chat stream.
const (
	chunkData = `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hé 日本 🙂"},"finish_reason":null}]}`
	stopData  = `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageData = `{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

// shape is a stream as an engine sends it. The usage chunk is what stays away from
// a caller that did not ask for it.
type shape struct{ head, usage, tail string }

func (s shape) sent(usage bool) string {
	if usage {
		return s.head + s.usage + s.tail
	}
	return s.head + s.tail
}

func event(data, nl string) string { return "data: " + data + nl + nl }

// lines is the ordinary stream with one kind of line end.
func lines(nl string) shape {
	return shape{event(chunkData, nl) + event(stopData, nl), event(usageData, nl), event("[DONE]", nl)}
}

// multi is an event whose JSON stands on several data lines.
func multi(data string) string {
	return "data: " + strings.Replace(data, ",", ",\ndata:", 2) + "\n\n"
}

func shapes() map[string]shape {
	compact := func(data string) string { return "data:" + data + "\n\n" }
	fields := func(data string) string { return "event: message\nid: 7\nretry: 3000\ndata: " + data + "\n\n" }
	commented := func(data string) string { return ": one\ndata: " + data + "\n: two\n\n" }
	big := strings.Replace(chunkData, "hé", strings.Repeat("é", 1<<19), 1)
	running := strings.Replace(chunkData, `]}`, `],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`, 1)
	said := strings.Replace(chunkData, "hé", `\"choices\":[],\"usage\":{\"prompt_tokens\":3}`, 1)
	lf := lines("\n")
	return map[string]shape{
		"LF":                           lf,
		"CRLF":                         lines("\r\n"),
		"CR":                           lines("\r"),
		"mixed line ends":              {event(chunkData, "\r\n") + event(stopData, "\r"), event(usageData, "\n"), event("[DONE]", "\r\n")},
		"no space after the colon":     {compact(chunkData) + compact(stopData), compact(usageData), compact("[DONE]")},
		"two spaces after the colon":   {event(" "+chunkData, "\n") + event(stopData, "\n"), event(" "+usageData, "\n"), event("[DONE]", "\n")},
		"comments before and between":  {": hi\n\n" + event(chunkData, "\n") + ":\n\n" + event(stopData, "\n") + ": usage follows\n\n", lf.usage, ": bye\n\n" + lf.tail},
		"comments within events":       {commented(chunkData) + commented(stopData), commented(usageData), commented("[DONE]")},
		"several data lines":           {multi(chunkData) + multi(stopData), multi(usageData), lf.tail},
		"event, id and retry":          {fields(chunkData) + fields(stopData), fields(usageData), fields("[DONE]")},
		"a field without a colon":      {"data\n\n" + lf.head, lf.usage, "retry\n\n" + lf.tail},
		"byte order mark":              {"\xef\xbb\xbf" + lf.head, lf.usage, lf.tail},
		"more blank lines":             {"\n\n" + event(chunkData, "\n") + "\n\n\n" + event(stopData, "\n"), lf.usage, "\n" + lf.tail},
		"no final blank line":          {lf.head, lf.usage, "data: [DONE]\n"},
		"no final line end":            {lf.head, lf.usage, "data: [DONE]"},
		"no final line end, CRLF":      {lines("\r\n").head, lines("\r\n").usage, "data: [DONE]\r"},
		"usage is the unfinished last": {lf.head, "data: " + usageData, ""},
		"no [DONE]":                    {lf.head, lf.usage, ""},
		"no usage chunk":               {lf.head, "", lf.tail},
		"usage in other chunks":        {event(running, "\n") + event(stopData, "\n"), lf.usage, lf.tail},
		"usage in the text":            {event(said, "\n") + event(stopData, "\n"), lf.usage, lf.tail},
		"1 MiB events":                 {event(big, "\n") + event(big, "\r\n") + event(stopData, "\n"), lf.usage, lf.tail},
		"events after [DONE]":          {lf.head, lf.usage, lf.tail + ": late\n\n"},
	}
}

// streams runs a script for callers that ask for usage and for callers that do
// not, and compares what they get with what the engine sent.
func (s *system) streams(name string, c shape, pieces ...sim.Piece) {
	s.t.Helper()
	f := scripted(name, eventStream)
	f.Pieces = pieces
	s.inject(f)
	for _, usage := range []bool{true, false} {
		more := ""
		if usage {
			more = askUsage
		}
		a := s.post("/v1/chat/completions", chat(true, more), "X-Sim-Script", name)
		if a.status != 200 || a.err != nil || a.header.Get("Content-Type") != eventStream {
			s.t.Errorf("%s: status %d, %v, %q: %.200s", name, a.status, a.err, a.header.Get("Content-Type"), a.body)
			continue
		}
		sameBytes(s.t, fmt.Sprintf("%s, usage asked: %v", name, usage), a.body, []byte(c.sent(usage)))
	}
}

// Streams of every shape arrive as the engine sent them (invariant 7).
func TestSSEShapes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, c := range shapes() {
		s.streams(name+", whole", c, sim.Piece{Text: c.sent(true)})
		if len(c.sent(true)) > 4096 {
			continue
		}
		single := make([]sim.Piece, 0, len(c.sent(true)))
		for _, b := range []byte(c.sent(true)) {
			single = append(single, sim.Piece{Base64: []byte{b}})
		}
		s.streams(name+", byte by byte", c, single...)
	}
}

// A stream may be split anywhere: within a character, a line end, a blank line.
func TestSSESplits(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, nl := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		small := `{"choices":[{"delta":{"content":"é日🙂"}}]}`
		c := shape{event(small, nl), event(`{"choices":[],"usage":{"prompt_tokens":3}}`, nl), event("[DONE]", nl)}
		whole := c.sent(true)
		at := make(chan int)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range at {
					s.streams(fmt.Sprintf("%s split at %d", name, i), c, sim.Piece{Text: whole[:i]}, sim.Piece{Text: whole[i:], DelayMS: 1})
				}
			})
		}
		for i := 1; i < len(whole); i++ {
			at <- i
		}
		close(at)
		wg.Wait()
	}
}

// The other streaming dialects are not edited at all.
func TestSSEDialects(t *testing.T) {
	t.Parallel()
	s := start(t)
	for path, sent := range map[string]string{
		"/v1/completions": event(`{"choices":[{"text":"a","finish_reason":"stop"}]}`, "\r\n") + event("[DONE]", "\r\n"),
		"/v1/responses": ": hi\n\nevent: response.created\ndata:{\"type\":\"response.created\",\"sequence_number\":0}\n\n" +
			"event: response.completed\r\ndata: {\"type\":\"response.completed\",\"sequence_number\":1,\"response\":{\"usage\":{\"input_tokens\":1}}}\r\n\r\n",
		"/v1/messages": "event: message_start\rdata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\r\r" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	} {
		s.script(path, eventStream, sent)
		a := s.post(path, `{"model":"`+model+`","stream":true}`, "X-Sim-Script", path)
		sameBytes(t, path, a.body, []byte(sent))
		want := `{"model":"` + model + `","stream":true}`
		if path == "/v1/completions" {
			want = `{"stream_options":{"include_usage":true},` + want[1:]
		}
		if e, _ := s.named(path); string(e.Body) != want {
			t.Errorf("%s: the engine got %s, want %s", path, e.Body, want)
		}
	}
}
