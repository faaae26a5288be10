package sim

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
)

// audioBytesPerSecond is the simulation's rule for the length of a recording:
// 16 kHz, 16 bits, one channel, whatever the file says.
const audioBytesPerSecond = 32000

// serveAudio answers transcriptions and translations. The recording counts as
// a prompt of one character for each 1000 bytes, the text has
// DefaultCompletionTokens tokens.
func (s *Server) serveAudio(c *call) *apiError {
	_, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return invalid(errors.New("body should be multipart/form-data"))
	}
	q := &request{n: 1, limit: -1}
	size, format := int64(-1), ""
	var prompt []byte
	for parts := multipart.NewReader(bytes.NewReader(c.body), params["boundary"]); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return invalid(errors.New("there was an error parsing the body"))
		}
		if part.FormName() == "file" {
			if size, err = io.Copy(io.Discard, part); err != nil {
				return invalid(errors.New("there was an error parsing the body"))
			}
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return invalid(errors.New("there was an error parsing the body"))
		}
		switch part.FormName() {
		case "model":
			q.model = string(value)
		case "response_format":
			format = string(value)
		case "prompt":
			prompt = value
		}
	}
	if size < 0 {
		return invalid(errors.New("field 'file' is required"))
	}
	if fault := c.use(q.model); fault != nil {
		return fault
	}
	words := string(prompt) + string(bytes.Repeat([]byte{'~'}, int(size/1000)))
	reply := c.newReply(q, words, 1)
	c.submit("", words, s.cfg.DefaultCompletionTokens, 1, false, "stop")
	if !c.wait() {
		return nil
	}
	said := reply.appendText(nil, 0, int(c.seq.produced.Load()))
	switch cmp.Or(format, "json") {
	case "text":
		c.finish(append(append([]byte{'"'}, said...), '"'))
	case "verbose_json":
		seconds := strconv.FormatFloat(float64(size)/audioBytesPerSecond, 'f', -1, 64)
		c.finish([]byte(`{"duration":"` + seconds + `","language":"en","text":"` + string(said) +
			`","segments":null,"words":null}`))
	default:
		seconds := strconv.FormatInt((size+audioBytesPerSecond-1)/audioBytesPerSecond, 10)
		c.finish([]byte(`{"text":"` + string(said) + `","usage":{"type":"duration","seconds":` + seconds + `}}`))
	}
	return nil
}
