package sim

import (
	"strconv"
)

// serveChat answers /v1/chat/completions.
func (s *Server) serveChat(c *call) *apiError {
	q, fault := c.parse()
	if fault != nil {
		return fault
	}
	if fault := c.use(q.model); fault != nil {
		return fault
	}
	prompt, user, assistant, err := chatPrompt(nil, q.messages)
	if err != nil {
		return invalid(err)
	}
	size := countTokens(prompt)
	steps, reason, fault := q.outputs(&s.cfg, size, s.cfg.DefaultChatTokens, true)
	if fault != nil {
		return fault
	}
	e := &chatEncoder{c: c, q: q, n: q.n, reply: c.newReply(q, prompt, q.n)}
	if q.echo {
		e.prefix = jsonInner(assistant)
	}
	if tool := chooseTool(q, user); tool != nil {
		e.tool = tool.name
		e.reply.tool = pieces(tool.arguments)
		if steps >= len(e.reply.tool) {
			steps, reason = len(e.reply.tool), "tool_calls"
		}
	}
	e.reason = reason
	label := reason
	if label == "tool_calls" {
		label = "stop" // the engine knows no tools
	}
	c.submit(q.salt, prompt, steps, q.n, q.stream, label)
	if q.stream {
		e.prepare()
		c.stream(e)
		return nil
	}
	if c.wait() {
		c.finish(e.whole())
	}
	return nil
}

// chatEncoder writes chat completions.
type chatEncoder struct {
	c      *call
	q      *request
	n      int
	reply  *reply
	reason string
	tool   string // function name; "" for a text reply
	prefix string // echoed assistant message

	head string // of every chunk, up to the value of the choice's index
}

// prepare formats what all chunks share.
func (e *chatEncoder) prepare() {
	c := e.c
	e.head = `data: {"id":"chatcmpl-` + c.id + `","object":"chat.completion.chunk","created":` +
		strconv.FormatInt(c.created, 10) + `,"model":"` + c.model + `","choices":[`
}

// chunk appends one chunk of one choice around delta.
func (e *chatEncoder) chunk(b []byte, choice, made int, before, delta, after, tail string) []byte {
	b = append(b, e.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, before...)
	b = append(b, delta...)
	b = append(b, after...)
	b = append(b, tail...)
	if e.q.running {
		b = append(b, `,"usage":`...)
		b = e.c.usage(b, made, false)
	}
	return append(b, "}\n\n"...)
}

const (
	chunkGoesOn = `,"logprobs":null,"finish_reason":null,"token_ids":null}]`
	toolOpen    = `,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`
)

func (e *chatEncoder) open(b []byte) []byte {
	for i := range e.n {
		b = e.chunk(b, i, 0, `,"delta":{"role":"assistant","content":""}`, "", "",
			`,"logprobs":null,"finish_reason":null}],"prompt_token_ids":null`)
		if e.prefix != "" {
			b = e.chunk(b, i, 0, `,"delta":{"content":"`, e.prefix, `"}`, chunkGoesOn)
		}
		if e.tool != "" {
			b = e.chunk(b, i, 0, `,"delta":{"tool_calls":[{"id":"`+e.callID(i)+`","type":"function","index":0,"function":{"name":"`,
				e.tool, `","arguments":""}}]}`, chunkGoesOn)
		}
	}
	return b
}

// callID is the id of a choice's tool call.
func (e *chatEncoder) callID(choice int) string {
	return "chatcmpl-tool-" + strconv.FormatUint(mix(e.reply.seeds[choice]), 16)
}

func (e *chatEncoder) step(b []byte, i int) []byte {
	before, after := `,"delta":{"content":"`, `"}`
	if e.tool != "" {
		before, after = toolOpen, `"}}]}`
	}
	for choice := range e.n {
		b = e.chunk(b, choice, i+1, before, e.reply.token(choice, i), after, chunkGoesOn)
	}
	return b
}

func (e *chatEncoder) close(b []byte) []byte {
	made := int(e.c.seq.produced.Load())
	for choice := range e.n {
		b = e.chunk(b, choice, made, `,"delta":{"content":""},"logprobs":null,"finish_reason":"`, e.reason,
			`","stop_reason":null,"token_ids":null}]`, "")
	}
	if e.q.usage {
		b = append(b, e.head...)
		b = append(b, `],"usage":`...)
		b = e.c.usage(b, made*e.n, true)
		b = append(b, "}\n\n"...)
	}
	return append(b, sseDone...)
}

const sseDone = "data: [DONE]\n\n"

func (e *chatEncoder) fail(b []byte, message string, done bool) []byte {
	return failOpenAI(b, message, done)
}

// failOpenAI appends the error event of the completion routes.
func failOpenAI(b []byte, message string, done bool) []byte {
	fault := engineDead()
	fault.message = message
	b = append(append(append(b, "data: "...), fault.body()...), "\n\n"...)
	if done {
		b = append(b, sseDone...)
	}
	return b
}

// whole returns the answer that is not streamed.
func (e *chatEncoder) whole() []byte {
	c := e.c
	made := int(c.seq.produced.Load())
	b := make([]byte, 0, 600+made*e.n*8)
	b = append(b, `{"id":"chatcmpl-`+c.id+`","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, c.created, 10)
	b = append(b, `,"model":"`+c.model+`","choices":[`...)
	for i := range e.n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"message":{"role":"assistant","content":`...)
		if e.tool == "" {
			b = append(b, `"`+e.prefix...)
			b = e.reply.appendText(b, i, made)
			b = append(b, '"')
		} else {
			b = append(b, `null`...)
		}
		b = append(b, `,"refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[`...)
		if e.tool != "" {
			b = append(b, `{"id":"`+e.callID(i)+`","type":"function","function":{"name":"`+e.tool+`","arguments":"`...)
			b = e.reply.appendText(b, i, made)
			b = append(b, `"}}`...)
		}
		b = append(b, `],"reasoning":null},"logprobs":null,"finish_reason":"`+e.reason+
			`","stop_reason":null,"token_ids":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null,"usage":`...)
	b = c.usage(b, made*e.n, false)
	return append(b, `,"prompt_logprobs":null,"prompt_token_ids":null,"kv_transfer_params":null}`...)
}

// usage appends a usage object. A short one leaves null details out, as vLLM's
// last chunk does.
func (c *call) usage(b []byte, completion int, short bool) []byte {
	q := c.seq
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(q.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(q.prompt+completion), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(completion), 10)
	switch {
	case q.cached > 0:
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(q.cached/CharsPerToken), 10)
		b = append(b, '}')
	case !short:
		b = append(b, `,"prompt_tokens_details":null`...)
	}
	return append(b, '}')
}
