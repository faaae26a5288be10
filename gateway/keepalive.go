package gateway

import (
	"log/slog"
	"net/http"

	"github.com/tokenbus/tokenbus/bus"
)

const levelRequest = slog.LevelInfo

// keepAlive waits for the head of a stream. When it takes long, it writes the head
// of a stream early and comments after it, so that no proxy on the way gives the
// connection up. An error then comes as an event, which is why this is off unless
// asked for.
func (x *exchange) keepAlive(call *bus.Call) {
	for !call.Wait(x.g.cfg.KeepAlive) {
		if !x.written {
			h := x.w.Header()
			h["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
			h["Cache-Control"] = []string{"no-cache"}
			h["X-Accel-Buffering"] = []string{"no"}
			x.w.WriteHeader(http.StatusOK)
			x.written, x.sse = true, true
			x.g.counters.status(http.StatusOK)
		}
		if !x.comment() {
			return
		}
	}
}

// comments writes a comment for each silent interval, between events only. It
// reports whether the client is still there.
func (x *exchange) comments(call *bus.Call) bool {
	for !call.Wait(x.g.cfg.KeepAlive) {
		if x.seen.separator() == nil && !x.comment() {
			return false
		}
	}
	return true
}

func (x *exchange) comment() bool {
	if _, err := x.w.Write([]byte(": keep-alive\n\n")); err != nil {
		return false
	}
	return x.rc.Flush() == nil
}
