package gateway

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/tokenbus/tokenbus/bus"
)

const levelRequest = slog.LevelInfo

// keepAlive waits for the head of a stream. When it takes long, it writes the head
// of a stream early and comments after it, so that no proxy on the way gives the
// connection up. An error then comes as an event, which is why this is off unless
// asked for.
func (x *exchange) keepAlive() {
	for !x.call.Wait(x.g.cfg.KeepAlive) {
		if !x.written {
			h := x.w.Header()
			h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
			h["Cache-Control"] = []string{"no-cache"}
			h["X-Accel-Buffering"] = []string{"no"}
			x.w.WriteHeader(http.StatusOK)
			x.sse = true
			x.said(http.StatusOK)
		}
		if !x.comment() {
			return
		}
	}
}

// maxMisfit bounds an answer that becomes an event, in bytes.
const maxMisfit = 64 << 10

// misfit ends a stream whose head was written early and whose answer is none: the
// engine's error becomes an event in the dialect of the endpoint.
func (x *exchange) misfit(head *bus.Head) error {
	var body []byte
	for len(body) < maxMisfit {
		p, err := x.call.Read()
		if err != nil {
			break
		}
		body = append(body, p...)
	}
	e := bus.Errorf(bus.ReasonEngineError, "the engine answers %d", head.Status)
	x.g.counters.broken.Add(1)
	event := errorEvent(x.route.API, x.id, x.model, &x.seen, e)
	var line bytes.Buffer
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if x.route.API != bus.Responses && json.Unmarshal(body, &said) == nil && said.Error != nil && json.Compact(&line, body) == nil {
		name := ""
		if x.route.API == bus.Messages {
			name = "event: error\n"
		}
		event = []byte(name + "data: " + line.String() + "\n\n")
	}
	_, _ = x.out.Write(event)
	_ = x.out.Flush()
	return e
}

// comments writes a comment for each silent interval, between events only. It
// reports whether the client is still there.
func (x *exchange) comments() bool {
	for !x.call.Wait(x.g.cfg.KeepAlive) {
		if x.seen.separator() == nil && !x.comment() {
			return false
		}
	}
	return true
}

func (x *exchange) comment() bool {
	x.patience()
	_, err := x.out.Write([]byte(": keep-alive\n\n"))
	if err == nil {
		err = x.out.Flush()
	}
	x.gone = err != nil
	return err == nil
}
