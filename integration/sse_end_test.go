package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// dialect is a streaming endpoint: the beginning of a stream of its own, with
// events that have not come to their end, and what its error event looks like.
type dialect struct {
	path  string
	sent  string
	event string // name of the error event
	check func(testing.TB, []byte)
}

func openAIEvent(t testing.TB, data []byte) {
	t.Helper()
	var e errorBody
	if err := json.Unmarshal(data, &e); err != nil || e.Error.Code != "engine_lost" || e.Error.Type != "server_error" || e.Error.Message == "" {
		t.Errorf("error event: %v: %s", err, data)
	}
}

func dialects() map[string]dialect {
	return map[string]dialect{
		"chat":        {"/v1/chat/completions", event(chunkData, "\n"), "", openAIEvent},
		"completions": {"/v1/completions", event(`{"choices":[{"index":0,"text":"a","finish_reason":null}]}`, "\n"), "", openAIEvent},
		"responses": {
			"/v1/responses", "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_7\",\"object\":\"response\"}}\n\n" +
				"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"a\"}\n\n",
			"response.failed", func(t testing.TB, data []byte) {
				t.Helper()
				var e struct {
					Type     string `json:"type"`
					Number   int    `json:"sequence_number"`
					Response struct {
						ID     string `json:"id"`
						Status string `json:"status"`
						Error  struct {
							Code, Message string
						} `json:"error"`
					} `json:"response"`
				}
				err := json.Unmarshal(data, &e)
				if r := e.Response; err != nil || e.Type != "response.failed" || e.Number != 2 || r.ID != "resp_7" || r.Status != "failed" || r.Error.Code == "" || r.Error.Message == "" {
					t.Errorf("error event: %v: %s", err, data)
				}
			},
		},
		"messages": {
			"/v1/messages", "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"}}\n\n" +
				"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
			"error", func(t testing.TB, data []byte) {
				t.Helper()
				var e errorBody
				if err := json.Unmarshal(data, &e); err != nil || e.Kind != "error" || e.Error.Type != "api_error" || e.Error.Message == "" {
					t.Errorf("error event: %v: %s", err, data)
				}
			},
		},
	}
}

// brokenStream checks that a stream holds what was sent, then an error event of
// the dialect, and never looks finished (invariant 6).
func (d dialect) brokenStream(t testing.TB, a answer, sent string) {
	t.Helper()
	if a.status != 200 {
		t.Errorf("status %d: %.200s", a.status, a.body)
		return
	}
	rest, ok := bytes.CutPrefix(a.body, []byte(sent))
	if !ok {
		sameBytes(t, "what was sent before the break", a.body, []byte(sent))
		return
	}
	if sent != "" && !strings.HasSuffix(sent, "\n\n") {
		if rest, ok = bytes.CutPrefix(rest, []byte("\n\n")); !ok {
			t.Errorf("invariant 6: no blank line ends the half event: %q", rest)
		}
	}
	if d.event != "" {
		if rest, ok = bytes.CutPrefix(rest, []byte("event: "+d.event+"\n")); !ok {
			t.Errorf("invariant 6: no error event: %q", rest)
			return
		}
	}
	data, ok := bytes.CutPrefix(rest, []byte("data: "))
	data, tail, end := bytes.Cut(data, []byte("\n\n"))
	if !ok || !end || len(tail) > 0 {
		t.Errorf("invariant 6: after what was sent: %q", rest)
		return
	}
	d.check(t, data)
}

// A stream that ends without its dialect's end, or breaks, ends with an error
// event in that dialect, never with [DONE].
func TestSSEUnfinished(t *testing.T) {
	t.Parallel()
	s := start(t)
	const half = "data: {\"cho"
	for name, d := range dialects() {
		for ending, c := range map[string]struct{ more, end string }{
			"clean":            {"", ""},
			"reset":            {"", "reset"},
			"half event":       {half, ""},
			"half event reset": {half, "reset"},
		} {
			for _, usage := range []string{"", askUsage} {
				key := fmt.Sprintf("%s, %s, usage asked: %v", name, ending, usage != "")
				f := scripted(key, eventStream, d.sent, c.more)
				// The reset comes when the pieces were surely read.
				f.Pieces, f.End = append(f.Pieces, sim.Piece{DelayMS: 20}), c.end
				s.inject(f)
				a := s.post(d.path, `{"model":"`+model+`","stream":true`+usage+`}`, "X-Sim-Script", key)
				sent := d.sent + c.more
				if strings.HasSuffix(ending, "event reset") && !bytes.HasPrefix(a.body, []byte(sent)) {
					sent = d.sent // half an event may be dropped instead of ended
				}
				t.Run(key, func(t *testing.T) { d.brokenStream(t, a, sent) })
			}
		}
	}
	if n := s.gateway.Counters().Broken; n != 32 {
		t.Errorf("%d broken streams are counted, want 32", n)
	}
}

// The words of an end within the text of an answer are not its end.
func TestSSEEndWithinText(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, text := range map[string]string{
		"chat": "[DONE]", "completions": "[DONE]", "responses": "response.completed", "messages": "message_stop",
	} {
		d := dialects()[name]
		sent := strings.Replace(strings.Replace(d.sent, `:"a"`, `:"`+text+`"`, 1), "hé", text, 1)
		if !strings.Contains(sent, text) {
			t.Fatalf("%s: the script lost its text", name)
		}
		s.script(name, eventStream, sent)
		a := s.post(d.path, `{"model":"`+model+`","stream":true}`, "X-Sim-Script", name)
		t.Run(name, func(t *testing.T) { d.brokenStream(t, a, sent) })
	}
}

// Streams as vLLM makes them, cut after two tokens, do not look finished.
func TestSSECut(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, kind := range []string{sim.CloseAfter, sim.ResetAfter} {
		s.inject(sim.Fault{Kind: kind, Name: kind, Tokens: 2})
		for path := range apis {
			t.Run(kind+path, func(t *testing.T) {
				body := s.post(path, long(path, true), "X-Sim-Script", kind).body
				end := map[string]string{"/v1/responses": "event: response.failed\n", "/v1/messages": "event: error\n"}[path]
				if n := bytes.Count(body, []byte("engine_lost")) + bytes.Count(body, []byte("without finishing")) + bytes.Count(body, []byte("the connection to the engine broke")); n == 0 ||
					!bytes.Contains(body, []byte(end)) || !bytes.HasSuffix(body, []byte("}\n\n")) || bytes.Contains(body, []byte("[DONE]")) {
					t.Errorf("invariant 6: the stream ends with %q", body[max(0, len(body)-400):])
				}
			})
		}
	}
}

// The number of a response.failed follows the last one, wherever that stood.
func TestSSEFailedNumber(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.script("n", eventStream, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"delta\":\""+strings.Repeat("x", 1000)+"\"}\n\n")
	a := s.post("/v1/responses", `{"model":"`+model+`","stream":true}`, "X-Sim-Script", "n")
	if !bytes.Contains(a.body, []byte(`"type":"response.failed","sequence_number":6,`)) {
		t.Errorf("the stream ends with %q", a.body[max(0, len(a.body)-300):])
	}
}

// An error that the engine tells within a 200 arrives, once, and nothing is added.
func TestSSEEngineError(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, sent := range map[string]string{
		"first event": event(`{"error":{"message":"quote \" and\nline","type":"x","param":null,"code":429}}`, "\n"),
		"vLLM's own":  event(chunkData, "\n") + event(`{"error":{"message":"no","type":"x","param":null,"code":500}}`, "\n") + event("[DONE]", "\n"),
	} {
		s.script(name, eventStream, sent)
		a := s.post("/v1/chat/completions", chat(true, ""), "X-Sim-Script", name)
		sameBytes(t, name, a.body, []byte(sent))
	}
	// As the simulated engine makes them, in each dialect.
	s.inject(sim.Fault{Kind: sim.ErrorAfter, Tokens: 2, Message: "a \"quoted\"\nmessage"})
	for path, body := range map[string]string{
		"/v1/chat/completions": chat(true, ""), "/v1/responses": `{"model":"` + model + `","stream":true,"input":"hi"}`,
		"/v1/messages": chat(true, `,"max_tokens":8`),
	} {
		a := s.post(path, body)
		if n := bytes.Count(a.body, []byte(`quoted`)); a.status != 200 || n != 1 || bytes.Contains(a.body, []byte("[DONE]")) {
			t.Errorf("%s: status %d, the message stands there %d times: %q", path, a.status, n, a.body)
		}
	}
}
