package sim

import (
	"errors"
	"strconv"
	"strings"
)

// serveCompletions answers /v1/completions. Several prompts are several
// choices, n for each.
func (s *Server) serveCompletions(c *call) *apiError {
	q, fault := c.parse()
	if fault != nil {
		return fault
	}
	if fault := c.use(q.model); fault != nil {
		return fault
	}
	list, ok := prompts(q.prompt)
	if !ok {
		return invalid(errors.New("field 'prompt' should be a string, a list of strings or a list of token ids"))
	}
	longest := 0
	for _, p := range list {
		longest = max(longest, countTokens(p))
	}
	steps, reason, fault := q.outputs(&s.cfg, longest, s.cfg.DefaultCompletionTokens, false)
	if fault != nil {
		return fault
	}
	e := &completionEncoder{c: c, q: q, reply: &reply{}, reason: reason}
	for _, p := range list {
		e.reply.seeds = append(e.reply.seeds, c.newReply(q, p, q.n).seeds...)
		echo := ""
		if q.echo {
			echo = jsonInner(p)
		}
		for range q.n {
			e.echo = append(e.echo, echo)
		}
	}
	c.submit(q.salt, strings.Join(list, ""), steps, len(e.echo), q.stream, reason)
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

// completionEncoder writes text completions.
type completionEncoder struct {
	c      *call
	q      *request
	reply  *reply
	echo   []string // what each choice repeats of its prompt
	reason string
	head   string
}

func (e *completionEncoder) prepare() {
	e.head = `data: {"id":"cmpl-` + e.c.id + `","object":"text_completion","created":` +
		strconv.FormatInt(e.c.created, 10) + `,"model":"` + e.c.model + `","choices":[`
}

func (e *completionEncoder) chunk(b []byte, choice, made int, words, after string) []byte {
	b = append(b, e.head...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"text":"`...)
	b = append(b, words...)
	b = append(b, after...)
	if e.q.running {
		b = append(b, `,"usage":`...)
		b = e.c.usage(b, made, false)
	}
	return append(b, "}\n\n"...)
}

const textGoesOn = `","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`

func (e *completionEncoder) open(b []byte) []byte {
	for i, words := range e.echo {
		if words != "" {
			b = e.chunk(b, i, 0, words, textGoesOn)
		}
	}
	return b
}

func (e *completionEncoder) step(b []byte, i int) []byte {
	for choice := range e.echo {
		b = e.chunk(b, choice, i+1, e.reply.token(choice, i), textGoesOn)
	}
	return b
}

func (e *completionEncoder) close(b []byte) []byte {
	made := int(e.c.seq.produced.Load())
	for choice := range e.echo {
		b = e.chunk(b, choice, made, "", `","logprobs":null,"finish_reason":"`+e.reason+
			`","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]`)
	}
	if e.q.usage {
		b = append(b, e.head...)
		b = append(b, `],"usage":`...)
		b = e.c.usage(b, made*len(e.echo), true)
		b = append(b, "}\n\n"...)
	}
	return append(b, sseDone...)
}

func (e *completionEncoder) fail(b []byte, message string, done bool) []byte {
	return failOpenAI(b, message, done)
}

// whole returns the answer that is not streamed.
func (e *completionEncoder) whole() []byte {
	c := e.c
	made := int(c.seq.produced.Load())
	b := make([]byte, 0, 400+made*len(e.echo)*8)
	b = append(b, `{"id":"cmpl-`+c.id+`","object":"text_completion","created":`...)
	b = strconv.AppendInt(b, c.created, 10)
	b = append(b, `,"model":"`+c.model+`","choices":[`...)
	for i, echo := range e.echo {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"text":"`+echo...)
		b = e.reply.appendText(b, i, made)
		b = append(b, `","logprobs":null,"finish_reason":"`+e.reason+
			`","stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}`...)
	}
	b = append(b, `],"service_tier":null,"system_fingerprint":null,"usage":`...)
	b = c.usage(b, made*len(e.echo), false)
	return append(b, `,"kv_transfer_params":null}`...)
}
