package bus

import (
	"strconv"

	"github.com/tokenbus/tokenbus/bus/peek"
)

// Describe writes what the body says into the headers of a request: the byte edits
// that the engine needs, which are the usage chunk that metering asks for and the
// model of a body that names none; and what a scheduler goes by, which is the
// session, if the headers name none, the estimate of tokens, and the prefix. The body
// must be what facts was read from.
func Describe(h Header, api API, model string, facts *peek.Facts, body []byte) {
	stream := "0"
	if facts.Stream {
		stream = "1"
	}
	set(h, HeaderStream, stream)
	var edits []string
	if api.UsageOnRequest() && facts.Stream && !facts.UsageAsked {
		edits = append(edits, facts.UsageSplice().String())
		set(h, HeaderStrip, "usage")
	}
	delete(h, HeaderModelAt)
	switch {
	case api.Multipart():
	case facts.Model == "":
		edits = append(edits, facts.ModelSplice(model).String())
	default:
		at := facts.Rename("")
		set(h, HeaderModelAt, strconv.Itoa(at.Offset)+" "+strconv.Itoa(at.Remove))
	}
	if edits != nil {
		h[HeaderSplice] = edits
	}
	if _, ok := Session(h); !ok {
		delete(h, HeaderSession)
		if key := facts.SessionKey(); key != "" {
			setSession(h, key)
		}
	}
	describePrompt(h, api, model, facts, body)
}

// describePrompt writes the size and the prefix of the prompt, for the APIs that run
// a model on one.
func describePrompt(h Header, api API, model string, facts *peek.Facts, body []byte) {
	delete(h, HeaderTokens)
	delete(h, HeaderPrefix)
	var output int64
	switch api {
	case Chat, Completions, Responses, Messages:
		output = facts.OutputTokens()
	case Embeddings, Rerank, Score, Pooling, Classify:
	default:
		return
	}
	set(h, HeaderTokens, strconv.FormatInt(facts.PromptTokens(), 10)+" "+strconv.FormatInt(output, 10))
	var blocks [peek.MaxBlocks]uint64
	if p := facts.Prefix(body, peek.Seed(model), blocks[:0]); len(p) > 0 {
		set(h, HeaderPrefix, p.String())
	}
}
