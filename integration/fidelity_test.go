package integration

import (
	"fmt"
	"strings"
	"testing"
)

// Request bodies reach the engine byte for byte, whatever they hold (invariant 7).
func TestFidelityRequest(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.script("ok", jsonType, "{}")
	m := `"model":"` + model + `"`
	for name, body := range map[string]string{
		"unknown fields":       `{` + m + `,"top_k":5,"vllm_xargs":{"a":[1]},"chat_template_kwargs":{"enable_thinking":false},"zz":null}`,
		"key order":            `{"zeta":1,"alpha":2,` + m + `,"beta":3,"response_format":{"json_schema":{"properties":{"b":1,"a":2}}}}`,
		"numbers":              `{` + m + `,"seed":1000000000000000,"a":9007199254740993,"b":123456789012345678901234567890,"c":1.0,"d":1E400,"e":-0,"f":1.10}`,
		"white space":          " \t\r\n{ \n " + m + "\t,\r\n\"messages\" : [ ] }\n\n ",
		"nulls":                `{` + m + `,"content":null,"tools":null,"stream":null,"stream_options":null,"max_tokens":null}`,
		"escapes":              `{"model":"org\/m\u006fdel-1.5","a":"\u00e9\ud83d\ude42\u0000\/\ud800"}`,
		"duplicates of others": `{` + m + `,"a":1,"a":2,"A":3}`,
		"zero limits":          `{` + m + `,"min_tokens":0,"max_tokens":0,"n":0}`,
		"usage asked":          `{` + m + `,"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`,
		"not UTF-8":            "{" + m + ",\"a\":\"\xff\xfe\"}",
		"nested model":         `{"a":{"model":"x","Model":"y","stream":true},` + m + `}`,
		"markup":               `{` + m + `,"a":"<b>&amp;\u2028` + "\u2028" + `"}`,
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/embeddings"} {
			a := s.post(path, body, "X-Sim-Script", "ok")
			if a.status != 200 {
				t.Errorf("%s: status %d: %.200s", name, a.status, a.body)
				continue
			}
			sameBytes(t, name+": the engine's body", s.last().Body, []byte(body))
		}
	}
}

// Where usage has to be asked for, nothing else changes.
func TestFidelityUsageSplice(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.script("ok", eventStream, event("[DONE]", "\n"))
	m := `"model":"` + model + `","stream":true`
	for name, c := range map[string]struct{ body, upward string }{
		"none":    {"{\n" + m + `,"z":1.0}`, `{"stream_options":{"include_usage":true},` + "\n" + m + `,"z":1.0}`},
		"null":    {`{` + m + `,"stream_options": null ,"z":1}`, `{` + m + `,"stream_options": {"include_usage":true} ,"z":1}`},
		"empty":   {`{` + m + `,"stream_options":{ } }`, `{` + m + `,"stream_options":{"include_usage":true} }`},
		"false":   {`{` + m + `,"stream_options":{"include_usage": false, "x":1e3}}`, `{` + m + `,"stream_options":{"include_usage": true, "x":1e3}}`},
		"another": {`{` + m + `,"stream_options":{ "x":1e3}}`, `{` + m + `,"stream_options":{"include_usage":true, "x":1e3}}`},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
			s.post(path, c.body, "X-Sim-Script", "ok")
			sameBytes(t, name, s.last().Body, []byte(c.upward))
		}
		// The others have no such option.
		s.post("/v1/responses", c.body, "X-Sim-Script", "ok")
		sameBytes(t, name+", responses", s.last().Body, []byte(c.body))
	}
}

// The same request is the same at the engine each time, or its prefix cache is
// worth nothing.
func TestFidelityRepeated(t *testing.T) {
	t.Parallel()
	s := start(t)
	for range 20 {
		s.post("/v1/chat/completions", chat(true, `,"tools":[{"b":1,"a":2}],"max_tokens":2`))
	}
	seen := make(map[string]int)
	for _, e := range s.sim.Record().Requests {
		seen[e.BodySHA256]++
	}
	if len(seen) != 1 || s.sim.Counts().Received != 20 {
		t.Errorf("the engine got %v", seen)
	}
}

// Answers arrive byte for byte, also those that are odd.
func TestFidelityAnswer(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, body := range map[string]string{
		"order and numbers": "{ \"z\":1,\n\"a\" : 1e400,\"seed\":1000000000000000 , \"content\":null }\n",
		"odd types":         `{"choices":null,"usage":"x"}`,
		"usage of floats":   `{"choices":[],"usage":{"prompt_tokens":1.5,"completion_tokens":-3}}`,
		"no JSON":           `{"usage":{"prompt_tokens":`,
		"logprobs":          `{"choices":[{"logprobs":{"content":[{"bytes":[226,130],"logprob":-9999.0,"top_logprobs":null}]}}]}`,
		"tool calls":        `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"","index":0}]}}]}`,
	} {
		s.script(name, jsonType, body)
		a := s.post("/v1/chat/completions", chat(false, ""), "X-Sim-Script", name)
		// The engine sends these in chunks, so their length is known only if they came in one piece.
		if n := a.header.Get("Content-Length"); a.status != 200 || n != "" && n != fmt.Sprint(len(body)) {
			t.Errorf("%s: status %d, length %q", name, a.status, n)
		}
		sameBytes(t, name, a.body, []byte(body))
	}
}

// A body that names its model twice, or nearly so, gets past no access rule.
func TestFidelityModelKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := `"model":"` + model + `"`
	for name, body := range map[string]string{
		"twice":        `{` + m + `,` + m + `}`,
		"two names":    `{` + m + `,"x":{},"model":"other"}`,
		"upper case":   `{"MODEL":"` + model + `"}`,
		"case variant": `{` + m + `,"Model":"other"}`,
		"escaped":      `{` + m + `,"\u006dodel":"other"}`,
		"escaped case": `{"\u004dodel":"other",` + m + `}`,
		"missing":      `{"messages":[]}`,
		"nothing":      `{}`,
		"empty":        `{"model":""}`,
		"null":         `{"model":null}`,
		"number":       `{"model":1}`,
		"list":         `{"model":["` + model + `"]}`,
	} {
		if e := isError(t, s.post("/v1/chat/completions", body), 400); e.param() != "model" {
			t.Errorf("%s: param %q, want model: %+v", name, e.param(), e)
		}
	}
	for name, body := range map[string]string{
		"stream twice": `{` + m + `,"stream":true,"stream":false}`, "Stream": `{` + m + `,"Stream":true}`,
		"long s": `{` + m + `,"ſtream":true}`, "stream is text": `{` + m + `,"stream":"true"}`,
	} {
		if e := isError(t, s.post("/v1/chat/completions", body), 400); e.param() != "stream" {
			t.Errorf("%s: param %q, want stream", name, e.param())
		}
	}
	if n := s.sim.Counts().Received; n != 0 {
		t.Errorf("the engine saw %d requests", n)
	}
}

// What is no JSON object is a 400 and reaches no engine.
func TestFidelityMalformed(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := `{"model":"` + model + `"`
	for name, body := range map[string]string{
		"nothing": "", "space": " \n", "half": `{"model":`, "open": m, "list": "[]", "null": "null", "text": `"x"`, "number": "1",
		"byte order mark": "\xef\xbb\xbf" + m + "}", "NaN": m + `,"a":NaN}`, "infinity": m + `,"a":-Infinity}`,
		"comma at the end": m + ",}", "two objects": m + "}{}", "text behind": m + "} x", "single quotes": "{'model':'m'}",
		"comment": m + "/* */}", "control character": m + ",\"a\":\"\n\"}", "bad escape": m + `,"a":"\x"}`,
		"half an escape": m + `,"a":"\u12"}`, "leading zero": m + `,"a":01}`, "plus": m + `,"a":+1}`, "no colon": m + `,"a" 1}`,
		"no comma": m + ` "a":1}`, "wrong bracket": m + `,"a":[1}`, "10 MB of brackets": strings.Repeat("[", 10<<20),
		"deep": m + `,"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}", "NUL": m + "\x00}", "options": m + `,"stream_options":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			isError(t, s.post("/v1/chat/completions", body), 400)
			isError(t, s.post("/v1/messages", body), 400)
		})
	}
	isError(t, s.post("/v1/audio/transcriptions", m+"}"), 400)
	isError(t, s.post("/v1/audio/transcriptions", "--b\r\n", "Content-Type", "multipart/form-data; boundary=b"), 400)
	if n := s.sim.Counts().Received; n != 0 {
		t.Errorf("the engine saw %d requests", n)
	}
}
