package sim

import (
	"encoding/json"
	"errors"
	"strings"
)

var errNotJSON = errors.New("unsupported media type: only 'application/json' is allowed")

// request is what the simulation understands of a body, whatever the route.
// Raw fields are slices of the body.
type request struct {
	model    string // "" is the default model
	stream   bool
	usage    bool // stream_options.include_usage
	running  bool // stream_options.continuous_usage_stats
	limit    int  // max_tokens and its other names; negative when absent
	n        int
	eos      bool // the model may end by itself
	seed     int64
	echo     bool
	salt     string // cache_salt
	format   string // encoding_format
	dims     int
	topN     int
	messages []byte
	prompt   []byte
	input    []byte
	system   []byte // system of /v1/messages, instructions of /v1/responses
	tools    []byte
	choice   []byte // tool_choice
	raw      map[string][]byte
}

// parse reads the body of the call. Like vLLM it takes nothing that is not
// declared as JSON.
func (c *call) parse() (*request, *apiError) {
	kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, invalid(errNotJSON)
	}
	return parse(c.body)
}

// parse reads a JSON body. Unknown fields are ignored; some routes look their
// own up in raw.
func parse(body []byte) (*request, *apiError) {
	if !json.Valid(body) {
		return nil, invalid(errors.New("{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error'}"))
	}
	q := &request{limit: -1, n: 1, eos: true}
	var errs []error
	take := func(name string, raw []byte, into any) {
		if err := decode(name, raw, into); err != nil {
			errs = append(errs, err)
		}
	}
	err := eachField(body, func(name string, raw []byte) {
		switch name {
		case "model":
			take(name, raw, &q.model)
		case "stream":
			take(name, raw, &q.stream)
		case "stream_options":
			_ = eachField(raw, func(name string, raw []byte) { // null or absent is fine
				switch name {
				case "include_usage":
					take(name, raw, &q.usage)
				case "continuous_usage_stats":
					take(name, raw, &q.running)
				}
			})
		case "max_tokens", "max_completion_tokens", "max_output_tokens":
			take(name, raw, &q.limit)
		case "n":
			take(name, raw, &q.n)
		case "ignore_eos":
			ignore := false
			take(name, raw, &ignore)
			q.eos = !ignore
		case "seed":
			take(name, raw, &q.seed)
		case "echo":
			take(name, raw, &q.echo)
		case "cache_salt":
			q.salt = text(raw)
		case "encoding_format":
			q.format = text(raw)
		case "dimensions":
			take(name, raw, &q.dims)
		case "top_n":
			take(name, raw, &q.topN)
		case "messages":
			q.messages = raw
		case "prompt":
			q.prompt = raw
		case "input":
			q.input = raw
		case "system", "instructions":
			q.system = raw
		case "tools":
			q.tools = raw
		case "tool_choice":
			q.choice = raw
		case "query", "queries", "documents", "text_1", "text_2", "data_1", "data_2", "tokens":
			if q.raw == nil {
				q.raw = map[string][]byte{}
			}
			q.raw[name] = raw
		}
	})
	if err != nil {
		return nil, invalid(err)
	}
	if len(errs) > 0 {
		return nil, invalid(errors.Join(errs...))
	}
	if q.n < 1 || q.n > 128 {
		return nil, badRequest("n", "n must be between 1 and 128, got %d.", q.n)
	}
	if q.dims < 0 || q.dims > 1<<16 {
		return nil, badRequest("dimensions", "dimensions must be between 1 and %d, got %d.", 1<<16, q.dims)
	}
	return q, nil
}

// outputs returns the length of a reply in steps and its finish reason. A
// request without a limit gets fallback tokens and ends by itself, or runs to
// the model's length with ignore_eos.
func (q *request) outputs(cfg *Config, prompt, fallback int, chat bool) (steps int, reason string, fault *apiError) {
	limit, reason := q.limit, "length"
	if q.limit == 0 && chat || q.limit < -1 {
		return 0, "", badRequest("max_tokens", "max_tokens must be at least 1, got %d.", q.limit)
	}
	switch {
	case limit >= 0:
	case !chat:
		limit = fallback
	case q.eos:
		limit, reason = min(fallback, cfg.MaxModelLen-prompt), "stop"
	default:
		limit = cfg.MaxModelLen - prompt
	}
	if prompt+max(limit, 1) > cfg.MaxModelLen {
		return 0, "", tooLong(cfg.MaxModelLen, max(limit, 1), prompt)
	}
	if q.eos && cfg.ReplyTokens > 0 && cfg.ReplyTokens < limit {
		limit, reason = cfg.ReplyTokens, "stop"
	}
	return limit, reason, nil
}
