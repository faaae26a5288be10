package sim

import (
	"strconv"
)

// serveResponses answers /v1/responses. A tool call is an item of type
// function_call instead of a message. Nothing is stored.
func (s *Server) serveResponses(c *call) *apiError {
	q, fault := c.parse()
	if fault != nil {
		return fault
	}
	if fault := c.use(q.model); fault != nil {
		return fault
	}
	var prompt, user string
	if isString(q.input) {
		user = text(q.input)
		prompt = "user: " + user + "\n"
		if !isNull(q.system) {
			prompt = "system: " + text(q.system) + "\n" + prompt
		}
	} else {
		var err error
		if prompt, user, _, err = chatPrompt(q.system, q.input); err != nil {
			return invalid(errNoInput)
		}
	}
	steps, reason, fault := q.outputs(&s.cfg, countTokens(prompt), s.cfg.DefaultChatTokens, true)
	if fault != nil {
		return fault
	}
	e := &responseEncoder{c: c, reply: c.newReply(q, prompt, 1)}
	e.status = "completed"
	if reason == "length" && q.eos {
		e.status = "incomplete"
	}
	if tool := chooseTool(q, user); tool != nil {
		e.tool, e.reply.tool = tool.name, pieces(tool.arguments)
		if steps >= len(e.reply.tool) {
			steps, reason, e.status = len(e.reply.tool), "stop", "completed"
		}
	}
	e.prepare(q)
	c.submit(q.salt, prompt, steps, 1, q.stream, reason)
	if q.stream {
		c.stream(e)
		return nil
	}
	if c.wait() {
		c.finish(e.response(nil, e.status, true))
	}
	return nil
}

// responseEncoder writes the events of the responses API.
type responseEncoder struct {
	c      *call
	reply  *reply
	status string // final
	tool   string // function name; "" for a message
	item   string // id of the one output item
	head   string // of the response object, up to the value of its status
	tail   string // of the response object, after its output
	number int    // of the next event
}

func (e *responseEncoder) prepare(q *request) {
	e.item = "msg_" + e.c.id
	if e.tool != "" {
		e.item = "fc_" + e.c.id
	}
	e.head = `{"id":"resp_` + e.c.id + `","created_at":` + strconv.FormatInt(e.c.created, 10) +
		`,"incomplete_details":`
	tools, choice := string(q.tools), string(q.choice)
	if isNull(q.tools) {
		tools = "[]"
	}
	if isNull(q.choice) {
		choice = `"auto"`
	}
	limit := "null"
	if q.limit >= 0 {
		limit = strconv.Itoa(q.limit)
	}
	e.tail = `,"parallel_tool_calls":true,"temperature":1.0,"tool_choice":` + choice + `,"tools":` + tools +
		`,"top_p":1.0,"background":false,"max_output_tokens":` + limit +
		`,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,` +
		`"service_tier":"auto","text":null,"top_logprobs":null,"truncation":"disabled","user":null`
}

// response appends the response object, with output and usage when it is over.
func (e *responseEncoder) response(b []byte, status string, over bool) []byte {
	b = append(b, e.head...)
	if status == "incomplete" {
		b = append(b, `{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"instructions":null,"metadata":null,"model":"`+e.c.model+`","object":"response","status":"`+status+`","error":null,"output":[`...)
	if over {
		b = e.output(b, status, int(e.c.seq.produced.Load()))
	}
	b = append(b, ']')
	b = append(b, e.tail...)
	b = append(b, `,"usage":`...)
	if !over {
		return append(b, `null}`...)
	}
	q, made := e.c.seq, int(e.c.seq.produced.Load())
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, int64(q.prompt), 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(q.cached/CharsPerToken), 10)
	b = append(b, `},"output_tokens":`...)
	b = strconv.AppendInt(b, int64(made), 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	b = strconv.AppendInt(b, int64(q.prompt+made), 10)
	return append(b, `}}`...)
}

// output appends the output item with so many tokens.
func (e *responseEncoder) output(b []byte, status string, made int) []byte {
	if e.tool != "" {
		b = append(b, `{"type":"function_call","id":"`+e.item+`","call_id":"call_`+e.c.id+`","name":"`+e.tool+`","arguments":"`...)
		b = e.reply.appendText(b, 0, made)
		return append(b, `","status":"`+status+`"}`...)
	}
	b = append(b, `{"id":"`+e.item+`","content":[`...)
	if status != "in_progress" {
		b = e.part(b, made)
	}
	return append(b, `],"role":"assistant","status":"`+status+`","type":"message"}`...)
}

// part appends the content part with so many tokens.
func (e *responseEncoder) part(b []byte, made int) []byte {
	b = append(b, `{"annotations":[],"text":"`...)
	b = e.reply.appendText(b, 0, made)
	return append(b, `","type":"output_text","logprobs":null}`...)
}

// event opens an event; the caller appends its fields and "}\n\n".
func (e *responseEncoder) event(b []byte, name string) []byte {
	b = append(b, "event: "+name+"\ndata: {\"type\":\""+name+"\",\"sequence_number\":"...)
	b = strconv.AppendInt(b, int64(e.number), 10)
	e.number++
	return append(b, ',')
}

func (e *responseEncoder) whole(b []byte, name, status string, over bool) []byte {
	b = append(e.event(b, name), `"response":`...)
	return append(e.response(b, status, over), "}\n\n"...)
}

func (e *responseEncoder) open(b []byte) []byte {
	b = e.whole(b, "response.created", "in_progress", false)
	b = e.whole(b, "response.in_progress", "in_progress", false)
	b = append(e.event(b, "response.output_item.added"), `"output_index":0,"item":`...)
	b = append(e.output(b, "in_progress", 0), "}\n\n"...)
	if e.tool != "" {
		return b
	}
	b = append(e.event(b, "response.content_part.added"), `"item_id":"`+e.item+`","output_index":0,"content_index":0,"part":`...)
	return append(e.part(b, 0), "}\n\n"...)
}

func (e *responseEncoder) step(b []byte, i int) []byte {
	if e.tool != "" {
		b = append(e.event(b, "response.function_call_arguments.delta"), `"item_id":"`...)
		b = append(append(b, e.item...), `","output_index":0,"delta":"`...)
		return append(append(b, e.reply.token(0, i)...), "\"}\n\n"...)
	}
	b = append(e.event(b, "response.output_text.delta"), `"item_id":"`...)
	b = append(append(b, e.item...), `","output_index":0,"content_index":0,"delta":"`...)
	return append(append(b, e.reply.token(0, i)...), "\",\"logprobs\":[]}\n\n"...)
}

func (e *responseEncoder) close(b []byte) []byte {
	made := int(e.c.seq.produced.Load())
	at := `"item_id":"` + e.item + `","output_index":0,`
	if e.tool != "" {
		b = append(e.event(b, "response.function_call_arguments.done"), at+`"name":"`+e.tool+`","arguments":"`...)
		b = append(e.reply.appendText(b, 0, made), "\"}\n\n"...)
	} else {
		b = append(e.event(b, "response.output_text.done"), at+`"content_index":0,"text":"`...)
		b = append(e.reply.appendText(b, 0, made), "\",\"logprobs\":[]}\n\n"...)
		b = append(e.event(b, "response.content_part.done"), at+`"content_index":0,"part":`...)
		b = append(e.part(b, made), "}\n\n"...)
	}
	b = append(e.event(b, "response.output_item.done"), `"output_index":0,"item":`...)
	b = append(e.output(b, e.status, made), "}\n\n"...)
	return e.whole(b, "response."+e.status, e.status, true)
}

// fail appends response.failed; the dialect has no [DONE].
func (e *responseEncoder) fail(b []byte, message string, _ bool) []byte {
	b = append(e.event(b, "response.failed"), `"response":`...)
	b = append(b, e.head...)
	b = append(b, `null,"instructions":null,"metadata":null,"model":"`+e.c.model+
		`","object":"response","status":"failed","error":{"code":"server_error","message":"`+jsonInner(message)+`"},"output":[]`...)
	b = append(b, e.tail...)
	return append(b, ",\"usage\":null}}\n\n"...)
}
