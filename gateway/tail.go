package gateway

import (
	"bytes"
	"strconv"

	"github.com/tokenbus/tokenbus/bus"
)

// tail remembers what an error event must know of the stream that it ends.
type tail struct {
	api        bus.API
	last       []byte // the last bytes that were written
	responseID string // of a Responses stream
	number     int64  // last sequence number of a Responses stream, -1 if none was seen
}

const tailBytes = 512

// saw takes bytes that go to the client.
func (t *tail) saw(p []byte) {
	if t.api == bus.Responses {
		t.sawResponse(p)
	}
	if len(p) >= tailBytes {
		t.last = append(t.last[:0], p[len(p)-tailBytes:]...)
		return
	}
	if over := len(t.last) + len(p) - tailBytes; over > 0 {
		t.last = t.last[:copy(t.last, t.last[over:])]
	}
	t.last = append(t.last, p...)
}

// separator is what must stand before an error event: nothing behind a whole
// event, else the blank line that ends the half-sent one.
func (t *tail) separator() []byte {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		if bytes.HasSuffix(t.last, []byte(end)) {
			return nil
		}
	}
	if len(t.last) == 0 {
		return nil
	}
	return []byte("\n\n")
}

func (t *tail) sawResponse(p []byte) {
	if t.responseID == "" {
		if i := bytes.Index(p, []byte(`"id":"resp_`)); i >= 0 {
			rest := p[i+len(`"id":"`):]
			if j := bytes.IndexByte(rest, '"'); j >= 0 {
				t.responseID = string(rest[:j])
			}
		}
	}
	const key = `"sequence_number":`
	if i := bytes.LastIndex(p, []byte(key)); i >= 0 {
		rest := p[i+len(key):]
		n := 0
		for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
			n++
		}
		if v, err := strconv.ParseInt(string(rest[:n]), 10, 64); err == nil {
			t.number = v
		}
	}
}
