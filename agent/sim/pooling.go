package sim

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// pool runs texts through the engine as one pooling request: it waits its turn
// and is prefilled, nothing is decoded. It returns false when the call ended.
func (c *call) pool(q *request, texts []string) (ok bool, fault *apiError) {
	if fault := c.use(q.model); fault != nil {
		return false, fault
	}
	for _, t := range texts {
		if n := countTokens(t); n > c.s.cfg.MaxModelLen {
			return false, tooLong(c.s.cfg.MaxModelLen, 0, n)
		}
	}
	c.submit(q.salt, strings.Join(texts, ""), 0, 1, false, "stop")
	return c.wait(), nil
}

// poolHead opens a list answer.
func (c *call) poolHead(prefix string) []byte {
	return append(make([]byte, 0, 1024), `{"id":"`+prefix+c.id+`","object":"list","created":`+
		strconv.FormatInt(c.created, 10)+`,"model":"`+c.model+`","data":[`...)
}

// poolUsage closes a list answer.
func (c *call) poolUsage(b []byte) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(c.seq.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(c.seq.prompt), 10)
	return append(b, `,"completion_tokens":0,"prompt_tokens_details":null}}`...)
}

var errNoInput = errors.New("field 'input' should be a string, a list of strings or a list of token ids")

// parsePooled reads a body whose texts are in input or messages.
func parsePooled(c *call) (*request, []string, *apiError) {
	q, fault := c.parse()
	if fault != nil {
		return nil, nil, fault
	}
	if q.messages != nil {
		prompt, _, _, err := chatPrompt(nil, q.messages)
		if err != nil {
			return nil, nil, invalid(err)
		}
		return q, []string{prompt}, nil
	}
	texts, ok := prompts(q.input)
	if !ok {
		return nil, nil, invalid(errNoInput)
	}
	return q, texts, nil
}

// appendVector appends a unit-less vector that is a function of the text, as a
// JSON array or, as OpenAI does, as base64 of little-endian float32.
func appendVector(b []byte, t string, dim int, asBase64 bool) []byte {
	seed := textSeed(0, 0, t, 0)
	at := func(i int) float32 {
		return float32(float64(mix(seed+uint64(i))>>40)/(1<<23)-1) / float32(math.Sqrt(float64(dim)))
	}
	if asBase64 {
		raw := make([]byte, 0, 4*dim)
		for i := range dim {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(at(i)))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	}
	b = append(b, '[')
	for i := range dim {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(at(i)), 'g', -1, 32)
	}
	return append(b, ']')
}

func (s *Server) serveEmbeddings(c *call) *apiError {
	return c.vectors("embd-", "embedding", "embedding")
}
func (s *Server) servePooling(c *call) *apiError { return c.vectors("pool-", "pooling", "data") }

// vectors answers the routes that return a vector for each text.
func (c *call) vectors(prefix, object, field string) *apiError {
	q, texts, fault := parsePooled(c)
	if fault != nil {
		return fault
	}
	ok, fault := c.pool(q, texts)
	if !ok {
		return fault
	}
	dim := cmp.Or(q.dims, c.s.cfg.EmbeddingDim)
	b := c.poolHead(prefix)
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`+strconv.Itoa(i)+`,"object":"`+object+`","`+field+`":`...)
		b = appendVector(b, t, dim, q.format == "base64")
		b = append(b, '}')
	}
	c.finish(c.poolUsage(append(b, ']')))
	return nil
}

func (s *Server) serveClassify(c *call) *apiError {
	q, texts, fault := parsePooled(c)
	if fault != nil {
		return fault
	}
	ok, fault := c.pool(q, texts)
	if !ok {
		return fault
	}
	b := c.poolHead("classify-")
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		p := score("", t)
		label := "LABEL_0"
		if p < 0.5 {
			label = "LABEL_1"
		}
		b = append(b, `{"index":`+strconv.Itoa(i)+`,"label":"`+label+`","probs":[`...)
		b = strconv.AppendFloat(b, p, 'f', 6, 64)
		b = append(b, ',')
		b = strconv.AppendFloat(b, 1-p, 'f', 6, 64)
		b = append(b, `],"num_classes":2}`...)
	}
	c.finish(c.poolUsage(append(b, ']')))
	return nil
}

// score is a function of both texts, between 0 and 1.
func score(query, document string) float64 {
	return float64(mix(textSeed(1, 0, query, 0)^textSeed(2, 0, document, 1))>>11) / (1 << 53)
}

// either returns the first of the named fields that the request has.
func (q *request) either(names ...string) (texts []string, ok bool) {
	for _, n := range names {
		if raw := q.raw[n]; !isNull(raw) {
			if raw[0] == '{' { // {"content":[parts]} of multimodal models
				_ = eachField(raw, func(name string, value []byte) {
					if name == "content" {
						texts, ok = []string{content(value)}, true
					}
				})
				return texts, ok
			}
			return prompts(raw)
		}
	}
	return nil, false
}

// serveScore pairs one text with many, or many with as many.
func (s *Server) serveScore(c *call) *apiError {
	q, fault := c.parse()
	if fault != nil {
		return fault
	}
	left, ok1 := q.either("text_1", "queries", "data_1", "query")
	right, ok2 := q.either("text_2", "documents", "data_2")
	if !ok1 || !ok2 {
		return invalid(errors.New("fields 'text_1' and 'text_2' are required"))
	}
	if len(left) > 1 && len(left) != len(right) {
		return badRequest("", "Input lengths must be either 1:1, 1:N or N:N")
	}
	ok, fault := c.pool(q, slices.Concat(left, right))
	if !ok {
		return fault
	}
	b := c.poolHead("score-")
	for i, t := range right {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`+strconv.Itoa(i)+`,"object":"score","score":`...)
		b = strconv.AppendFloat(b, score(left[min(i, len(left)-1)], t), 'f', 6, 64)
		b = append(b, '}')
	}
	c.finish(c.poolUsage(append(b, ']')))
	return nil
}

// serveRerank orders documents by their score.
func (s *Server) serveRerank(c *call) *apiError {
	q, fault := c.parse()
	if fault != nil {
		return fault
	}
	query, ok1 := q.either("query")
	documents, ok2 := q.either("documents")
	if !ok1 || !ok2 {
		return invalid(errors.New("fields 'query' and 'documents' are required"))
	}
	ok, fault := c.pool(q, slices.Concat(query, documents))
	if !ok {
		return fault
	}
	order := make([]int, len(documents))
	scores := make([]float64, len(documents))
	for i, d := range documents {
		order[i], scores[i] = i, score(query[0], d)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	if q.topN > 0 && q.topN < len(order) {
		order = order[:q.topN]
	}
	size := strconv.Itoa(c.seq.prompt)
	b := []byte(`{"id":"rerank-` + c.id + `","model":"` + c.model + `","usage":{"prompt_tokens":` + size +
		`,"total_tokens":` + size + `},"results":[`)
	for i, at := range order {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`+strconv.Itoa(at)+`,"document":{"text":"`+jsonInner(documents[at])+
			`","multi_modal":null},"relevance_score":`...)
		b = strconv.AppendFloat(b, scores[at], 'f', 6, 64)
		b = append(b, '}')
	}
	c.finish(append(b, `]}`...))
	return nil
}
