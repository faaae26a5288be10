package sim

import (
	"context"
	"net"
	"net/http"
	"time"
)

// sleep waits, and reports false when the client left or the engine stopped.
func (s *Server) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.dead:
	}
	return false
}

// hang waits until the client leaves or the engine stops.
func (s *Server) hang(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.dead:
	}
}

// play answers a request as the fault says. It reports whether the request is
// through with: a hang with a delay lets it go on.
func (s *Server) play(w http.ResponseWriter, r *http.Request, f *Fault) (through bool) {
	switch f.Kind {
	case FailStatus:
		for k, v := range f.Headers {
			w.Header().Set(k, v)
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(f.Status)
		_, _ = w.Write([]byte(f.Body)) // whoever left meanwhile needs no answer
	case HangBeforeHeaders:
		if f.DelayMS > 0 {
			return !s.sleep(r.Context(), f.delay())
		}
		s.hang(r.Context())
	case Refuse:
		cut(w)
	case Script:
		s.playScript(w, r, f)
	}
	return true
}

func (s *Server) playScript(w http.ResponseWriter, r *http.Request, f *Fault) {
	rc := http.NewResponseController(w)
	write := w.Write
	if f.Raw {
		conn, _, err := rc.Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer conn.Close()
		write = conn.Write
	} else {
		// No type is guessed: what the script does not set is not sent.
		w.Header()["Content-Type"] = nil
		for k, v := range f.Headers {
			w.Header().Set(k, v)
		}
		if f.Status != 0 {
			w.WriteHeader(f.Status)
		}
	}
	for _, p := range f.Pieces {
		if !s.sleep(r.Context(), time.Duration(p.DelayMS)*time.Millisecond) {
			return
		}
		if _, err := write(p.bytes()); err != nil {
			return
		}
		if !f.Raw {
			_ = rc.Flush() // a lost connection shows at the next write
		}
	}
	switch f.End {
	case "reset":
		cut(w)
	case "hang":
		s.hang(r.Context())
	}
}

// cut ends the connection without another byte, with a TCP reset where there
// is TCP. It does not return when the connection cannot be taken over.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close below is a polite one
	}
	_ = conn.Close() // nothing to do for a connection that is gone
}
