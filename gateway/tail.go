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
	seam       []byte // scratch: the end of what was seen and the beginning of what comes
}

const (
	tailBytes = 512
	seamBytes = 128 // longer than a key and its value, which a read may cut in two
)

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

// sawResponse looks for the id and the numbers of a Responses stream, across the
// border of two reads as well.
func (t *tail) sawResponse(p []byte) {
	t.seam = append(t.seam[:0], t.last[max(len(t.last)-seamBytes, 0):]...)
	t.seam = append(t.seam, p[:min(len(p), seamBytes)]...)
	for _, b := range [][]byte{t.seam, p} {
		if t.responseID == "" {
			t.responseID = responseID(b)
		}
		if n, ok := lastNumber(b); ok {
			t.number = n
		}
	}
}

// responseID gives the first id of a response that is whole, "" if there is none.
func responseID(b []byte) string {
	const key = `"id":`
	for {
		i := bytes.Index(b, []byte(key))
		if i < 0 {
			return ""
		}
		b = b[i+len(key):]
		if rest, ok := bytes.CutPrefix(bytes.TrimLeft(b, " "), []byte(`"resp_`)); ok {
			if j := bytes.IndexByte(rest, '"'); j >= 0 {
				return "resp_" + string(rest[:j])
			}
		}
	}
}

// lastNumber gives the last sequence number that is whole: what follows its digits
// is here, too.
func lastNumber(b []byte) (int64, bool) {
	const key = `"sequence_number":`
	for {
		i := bytes.LastIndex(b, []byte(key))
		if i < 0 {
			return 0, false
		}
		rest := bytes.TrimLeft(b[i+len(key):], " ")
		digits := 0
		for digits < len(rest) && '0' <= rest[digits] && rest[digits] <= '9' {
			digits++
		}
		if digits < len(rest) {
			if v, err := strconv.ParseInt(string(rest[:digits]), 10, 64); err == nil {
				return v, true
			}
		}
		b = b[:i]
	}
}
