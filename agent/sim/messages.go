package sim

import (
	"net/http"
	"strconv"
)

// serveMessages answers /v1/messages, the Anthropic dialect of vLLM.
func (s *Server) serveMessages(c *call) *apiError {
	q, prompt, user, fault := c.parseMessages()
	if fault != nil {
		return fault
	}
	steps, reason, fault := q.outputs(&s.cfg, countTokens(prompt), s.cfg.DefaultChatTokens, true)
	if fault != nil {
		return fault
	}
	e := &messageEncoder{c: c, reply: c.newReply(q, prompt, 1), stop: "end_turn"}
	if reason == "length" {
		e.stop = "max_tokens"
	}
	if tool := chooseTool(q, user); tool != nil {
		e.tool, e.reply.tool = tool.name, pieces(tool.arguments)
		if steps >= len(e.reply.tool) {
			steps, reason, e.stop = len(e.reply.tool), "stop", "tool_use"
		}
	}
	c.submit(q.salt, prompt, steps, 1, q.stream, reason)
	if q.stream {
		c.stream(e)
		return nil
	}
	if c.wait() {
		c.finish(e.whole())
	}
	return nil
}

// serveCountTokens answers without the engine, as vLLM does.
func (s *Server) serveCountTokens(c *call) *apiError {
	_, prompt, _, fault := c.parseMessages()
	if fault != nil {
		return fault
	}
	c.end(OutcomeFinished, http.StatusOK)
	writeJSON(c.w, http.StatusOK, []byte(`{"input_tokens":`+strconv.Itoa(countTokens(prompt))+`}`))
	return nil
}

func (c *call) parseMessages() (q *request, prompt, user string, fault *apiError) {
	if q, fault = c.parse(); fault != nil {
		return nil, "", "", fault
	}
	if fault = c.use(q.model); fault != nil {
		return nil, "", "", fault
	}
	prompt, user, _, err := chatPrompt(q.system, q.messages)
	if err != nil {
		return nil, "", "", invalid(err)
	}
	return q, prompt, user, nil
}

// messageEncoder writes messages.
type messageEncoder struct {
	c     *call
	reply *reply
	stop  string // stop_reason
	tool  string // tool name; "" for text
}

// usage appends a usage object without its braces.
func (e *messageEncoder) usage(b []byte, output int) []byte {
	q := e.c.seq
	b = append(b, `"input_tokens":`...)
	b = strconv.AppendInt(b, int64(q.prompt-q.cached/CharsPerToken), 10)
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, int64(output), 10)
	b = append(b, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":`...)
	return strconv.AppendInt(b, int64(q.cached/CharsPerToken), 10)
}

// message opens a message object up to its content.
func (e *messageEncoder) message(b []byte) []byte {
	return append(b, `{"id":"msg_`+e.c.id+`","type":"message","role":"assistant","content":[`...)
}

// rest closes a message object.
func (e *messageEncoder) rest(b []byte, stop string, output int) []byte {
	b = append(b, `],"model":"`+e.c.model+`","stop_reason":`+stop+`,"stop_sequence":null,"usage":{`...)
	return append(e.usage(b, output), "}}"...)
}

func (e *messageEncoder) open(b []byte) []byte {
	b = append(b, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	b = e.rest(e.message(b), "null", 0)
	b = append(b, "}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"...)
	if e.tool != "" {
		b = append(b, `{"type":"tool_use","id":"toolu_`+e.c.id+`","name":"`+e.tool+`","input":{}}`...)
	} else {
		b = append(b, `{"type":"text","text":""}`...)
	}
	return append(b, "}\n\n"...)
}

func (e *messageEncoder) step(b []byte, i int) []byte {
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"...)
	if e.tool != "" {
		b = append(b, `{"type":"input_json_delta","partial_json":"`...)
	} else {
		b = append(b, `{"type":"text_delta","text":"`...)
	}
	return append(append(b, e.reply.token(0, i)...), "\"}}\n\n"...)
}

func (e *messageEncoder) close(b []byte) []byte {
	b = append(b, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"+
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\""+e.stop+
		"\",\"stop_sequence\":null},\"usage\":{"...)
	b = e.usage(b, int(e.c.seq.produced.Load()))
	return append(b, "}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// fail appends an error event; the dialect has no [DONE].
func (e *messageEncoder) fail(b []byte, message string, _ bool) []byte {
	fault := &apiError{kind: "internal_error", message: message}
	return append(append(append(b, "event: error\ndata: "...), fault.anthropicBody()...), "\n\n"...)
}

// whole returns the answer that is not streamed.
func (e *messageEncoder) whole() []byte {
	made := int(e.c.seq.produced.Load())
	b := e.message(make([]byte, 0, 400+made*8))
	if e.tool != "" {
		b = append(b, `{"type":"tool_use","id":"toolu_`+e.c.id+`","name":"`+e.tool+`","input":`...)
		if e.stop == "tool_use" {
			for _, p := range e.reply.tool {
				b = append(b, text([]byte(`"`+p+`"`))...)
			}
		} else {
			b = append(b, "{}"...) // cut off: no object to show
		}
		b = append(b, '}')
	} else {
		b = append(b, `{"type":"text","text":"`...)
		b = e.reply.appendText(b, 0, made)
		b = append(b, `"}`...)
	}
	return e.rest(b, `"`+e.stop+`"`, made)
}
