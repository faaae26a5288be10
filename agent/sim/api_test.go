package sim

import (
	"bytes"
	"encoding/base64"
	"mime/multipart"
	"regexp"
	"strings"
	"testing"
)

var variable = regexp.MustCompile(`"created":\d+|"created_at":\d+`)

// TestAnswers holds whole answers against the shapes of vLLM.
func TestAnswers(t *testing.T) {
	cfg := Instant()
	cfg.Models = []string{"m", "m-alias"}
	cfg.Adapters = map[string]string{"lora": "m"}
	g, stop := start(t, cfg)
	defer stop()
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string // with 0 for times
	}{
		"chat": {"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"unknown":[{"a":"}"}]}`, 200,
			`{"id":"chatcmpl-id","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"TEXT","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`},
		"completion": {"/v1/completions", `{"model":"m-alias","prompt":[1,2,3],"max_tokens":1}`, 200,
			`{"id":"cmpl-id","object":"text_completion","created":0,"model":"m-alias","choices":[{"index":0,"text":"TEXT","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1,"prompt_tokens_details":null},"kv_transfer_params":null}`},
		"no model": {"/v1/chat/completions", `{"model":"x","messages":[{"role":"user","content":"hi"}]}`, 404,
			"{\"error\":{\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		"Model is not model": {"/v1/completions", `{"Model":"x","prompt":"","echo":true,"max_tokens":0}`, 200, ""},
		"bad JSON":           {"/v1/completions", `{"model":`, 400, ""},
		"no object":          {"/v1/completions", `[]`, 400, ""},
		"null":               {"/v1/chat/completions", `null`, 400, ""},
		"bad type":           {"/v1/completions", `{"prompt":"a","max_tokens":"x"}`, 400, ""},
		"no messages":        {"/v1/chat/completions", `{"messages":[]}`, 400, ""},
		"too long": {"/v1/completions", `{"prompt":"12345","max_tokens":32767}`, 400,
			`{"error":{"message":"This model's maximum context length is 32768 tokens. However, you requested 32767 output tokens and your prompt contains at least 2 input tokens, for a total of at least 32769 tokens. Please reduce the length of the input prompt or the number of requested output tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`},
		"not found": {"/v1/nothing", `{}`, 404, `{"error":{"message":"Not Found","type":"Not Found","param":null,"code":404}}`},
		"method":    {"/v1/chat/completions", ``, 405, `{"error":{"message":"Method Not Allowed","type":"Method Not Allowed","param":null,"code":405}}`},
		"version":   {"/version", ``, 200, `{"version":"0.11.2"}`},
		"health":    {"/health", ``, 200, ``},
		"tokenize":  {"/tokenize", `{"prompt":"12345"}`, 200, ""},
		"count":     {"/v1/messages/count_tokens", `{"model":"lora","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, 200, `{"input_tokens":3}`},
		"no model for messages": {"/v1/messages", `{"model":"x","messages":[{"role":"user","content":"hi"}]}`, 404,
			"{\"type\":\"error\",\"error\":{\"type\":\"NotFoundError\",\"message\":\"The model `x` does not exist.\"}}"},
		"rerank":   {"/rerank", `{"query":"q","documents":["a","b"],"top_n":1}`, 200, ""},
		"score":    {"/v1/score", `{"text_1":"q","text_2":["a","b"]}`, 200, ""},
		"classify": {"/classify", `{"input":"q"}`, 200, ""},
		"pooling":  {"/pooling", `{"input":["q","r"],"dimensions":2}`, 200, ""},
		"embedding": {"/v1/embeddings", `{"input":"12345","dimensions":1,"model":"lora"}`, 200,
			`{"id":"embd-id","object":"list","created":0,"model":"lora","data":[{"index":0,"object":"embedding","embedding":[0]}],"usage":{"prompt_tokens":2,"total_tokens":2,"completion_tokens":0,"prompt_tokens_details":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			status, got := g.post(c.path, c.body, "X-Request-Id", "id")
			got = variable.ReplaceAllString(got, `"created":0`)
			got = regexp.MustCompile(`\[-?0\.\d+\]`).ReplaceAllString(got, "[0]")
			for _, tok := range escaped {
				got = strings.Replace(strings.Replace(got, `"content":"`+tok+`"`, `"content":"TEXT"`, 1),
					`"text":"`+tok+`"`, `"text":"TEXT"`, 1)
			}
			if status != c.status || c.want != "" && got != c.want {
				t.Errorf("got  %d %s\nwant %d %s", status, got, c.status, c.want)
			}
			if status == 200 && got != "" {
				unmarshal[map[string]any](t, got)
			}
		})
	}
}

func TestChatStream(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	_, body := g.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,"max_tokens":3,
		"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, "X-Request-Id", `a"b`)
	data := events(t, body)
	if len(data) != 2+2*3+2+1+1 {
		t.Fatalf("%d events:\n%s", len(data), body)
	}
	type chunk struct {
		ID      string
		Choices []struct {
			Index        int
			Delta        struct{ Role, Content string }
			FinishReason *string `json:"finish_reason"`
		}
		Usage struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		}
	}
	var words [2]string
	for i, d := range data[:len(data)-2] {
		c := unmarshal[chunk](t, d)
		if c.ID != `chatcmpl-a"b` || len(c.Choices) != 1 || c.Choices[0].Index != i%2 || c.Usage.Prompt != 3 {
			t.Errorf("chunk %d: %s", i, d)
		}
		words[i%2] += c.Choices[0].Delta.Content
		if last := i >= 8; (c.Choices[0].FinishReason != nil) != last {
			t.Errorf("finish reason in chunk %d: %s", i, d)
		}
	}
	if words[0] == words[1] || countTokens(words[0]) != 3 {
		t.Errorf("choices are %q", words)
	}
	if c := unmarshal[chunk](t, data[len(data)-2]); len(c.Choices) != 0 || c.Usage.Completion != 6 {
		t.Errorf("usage chunk: %s", data[len(data)-2])
	}
	if data[len(data)-1] != "[DONE]" {
		t.Errorf("last event: %s", data[len(data)-1])
	}
}

func TestToolCall(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	const tools = `"tools":[{"type":"function","function":{"name":"first","parameters":{"type":"object","properties":{"n":{"type":"integer"},"city":{"type":"string"}}}}},{"type":"function","function":{"name":"second"}}]`
	for name, c := range map[string]struct{ rest, content, tool string }{
		"required": {`,"tool_choice":"required"`, "hi", "first"},
		"named":    {`,"tool_choice":{"type":"function","function":{"name":"second"}}`, "hi", "second"},
		"asked":    {``, "please use tool: second", "second"},
		"auto":     {`,"tool_choice":"auto"`, "hi", ""},
		"none":     {`,"tool_choice":"none"`, "tool:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, body := g.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"`+c.content+`"}],"stream":true,`+tools+c.rest+`}`)
			var fn, args, reason string
			for _, d := range events(t, body) {
				if d == "[DONE]" {
					continue
				}
				ch := unmarshal[struct {
					Choices []struct {
						Delta struct {
							Tools []struct {
								ID, Type string
								Function struct{ Name, Arguments string }
							} `json:"tool_calls"`
						}
						Finish string `json:"finish_reason"`
					}
				}](t, d).Choices[0]
				for _, call := range ch.Delta.Tools {
					fn += call.Function.Name
					args += call.Function.Arguments
				}
				reason = ch.Finish
			}
			if fn != c.tool || (fn != "") != (reason == "tool_calls") {
				t.Errorf("tool %q, want %q; reason %q", fn, c.tool, reason)
			}
			if fn == "first" && args != `{"city": "a simulated value", "n": 7}` {
				t.Errorf("arguments %s", args)
			}
		})
	}
}

func TestEmbeddingFormats(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	_, body := g.post("/v1/embeddings", `{"input":["a","b"],"encoding_format":"base64"}`)
	data := unmarshal[struct{ Data []struct{ Embedding string } }](t, body).Data
	raw, err := base64.StdEncoding.DecodeString(data[0].Embedding)
	if err != nil || len(raw) != 4*384 || data[0] == data[1] {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

func TestAudio(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("model", "sim-model")
	f, _ := w.CreateFormFile("file", "a.wav")
	_, _ = f.Write(make([]byte, 32001))
	_ = w.Close()
	status, body := g.post("/v1/audio/transcriptions", b.String(), "Content-Type", w.FormDataContentType())
	if status != 200 || !strings.HasSuffix(body, `"usage":{"type":"duration","seconds":2}}`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestMediaType(t *testing.T) {
	g, stop := start(t, Instant())
	defer stop()
	for kind, want := range map[string]int{"text/plain": 400, "application/json; charset=utf-8": 200} {
		if status, body := g.post("/v1/embeddings", `{"input":"a"}`, "Content-Type", kind); status != want {
			t.Errorf("%s: %d %s", kind, status, body)
		}
	}
}

func TestKey(t *testing.T) {
	cfg := Instant()
	cfg.APIKey = "k"
	g, stop := start(t, cfg)
	defer stop()
	for name, c := range map[string]struct {
		path, key string
		status    int
	}{
		"none":      {"/v1/models", "", 401},
		"wrong":     {"/v1/models", "Bearer x", 401},
		"right":     {"/v1/models", "Bearer k", 200},
		"unguarded": {"/metrics", "", 200},
	} {
		if status, body := g.post(c.path, "", "Authorization", c.key); status != c.status || status == 401 && body != `{"error":"Unauthorized"}` {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, _ := g.post("/v1/embeddings", `{"input":"a"}`); status != 401 || g.Counts().Rejected != 1 {
		t.Errorf("status %d, record %+v", status, g.Counts())
	}
}

func TestValidateNamesEverything(t *testing.T) {
	err := Config{Adapters: map[string]string{"a": "b"}}.Validate()
	for _, field := range []string{"models", "adapters", "max_model_len", "max_num_seqs", "block_chars", "version", "--keep-entries"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in: %v", field, err)
		}
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

func TestVocabulary(t *testing.T) {
	for _, tok := range vocabulary {
		if n := len([]rune(tok)); n != CharsPerToken {
			t.Errorf("%q has %d characters", tok, n)
		}
	}
}
