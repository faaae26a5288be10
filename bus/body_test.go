package bus_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

// bigRequest is a JSON body of about n bytes in which each place shows.
func bigRequest(n int) []byte {
	return fmt.Appendf(nil, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"prompt":"%s"}`, pattern(n))
}

// digest stands for a body.
func digest(body []byte) []byte { return fmt.Appendf(nil, "%d %x", len(body), sha256.Sum256(body)) }

// pull pulls the body of a request, if it was not sent along, and answers with its
// digest. It reads each part after a pause.
func pull(pause time.Duration) func(*job) {
	return func(j *job) {
		var r io.Reader = bytes.NewReader(j.m.Data)
		if bus.FirstHeader(j.m.Header, bus.HeaderBody) != "" {
			body, size, err := bus.PullBody(j.ctx, j.w.agent, j.m)
			if err != nil {
				_ = j.Send(bus.KindError, errorHeader(err), nil)
				return
			}
			defer body.Close()
			if want := bus.FirstHeader(j.m.Header, bus.HeaderSize); fmt.Sprint(size) != want {
				j.w.t.Errorf("size %d, want %s", size, want)
			}
			r = body
		}
		got, err := io.ReadAll(slowly{r, pause})
		if err != nil {
			_ = j.Send(bus.KindError, errorHeader(err), nil)
			return
		}
		whole(string(digest(got)))(j)
	}
}

func errorHeader(err error) bus.Header {
	h := make(bus.Header)
	bus.AsError(err).SetHeaders(h)
	return h
}

type slowly struct {
	r     io.Reader
	pause time.Duration
}

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.r.Read(p)
}

// TestLargeBody: a body of any size arrives whole, pushed along or pulled
// (invariant 7), also beyond the largest message.
func TestLargeBody(t *testing.T) {
	for _, n := range []int{0, bus.InlineBody - 200, bus.InlineBody, bus.BodyPart, bus.BodyPart * 2, bus.MaxPayload + 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			body := bigRequest(n)
			bustest.Bubble(t, func(t *testing.T) {
				w := newWorld(t, time.Minute, pull(0))
				defer w.stop()
				call := w.start(t.Context(), func(r *bus.Request) { r.Body = body })
				if got, err := drain(call); err != nil || !bytes.Equal(got, digest(body)) {
					t.Errorf("invariant 7: got %s, want %s: %v", got, digest(body), err)
				}
				if pulled := len(w.first().m.Data) == 0; pulled != (len(body) > bus.InlineBody) {
					t.Errorf("a body of %d bytes was pulled: %v", len(body), pulled)
				}
				call.Close()
				w.settle(time.Second)
			})
		})
	}
}

// TestLargeBodyCut: a body that is pulled over wires that break arrives whole
// (invariant 7).
func TestLargeBodyCut(t *testing.T) {
	body := bigRequest(400 << 10)
	rapid.Check(t, func(rt *rapid.T) {
		cuts := drawCuts(rt, 0)
		pause := time.Duration(rapid.IntRange(1, 20).Draw(rt, "pause")) * time.Millisecond
		broken := ""
		bustest.Bubble(t, func(t *testing.T) {
			w := newWorld(t, time.Minute, pull(pause))
			defer w.stop()
			call := w.start(t.Context(), func(r *bus.Request) { r.Body = body })
			time.Sleep(100 * time.Millisecond)
			wait := w.happen(cuts)
			if got, err := drain(call); err != nil || !bytes.Equal(got, digest(body)) {
				broken = fmt.Sprintf("invariant 7: got %s, want %s: %v", got, digest(body), err)
			}
			wait()
			call.Close()
			w.settle(2 * bus.LingerFor)
		})
		if broken != "" {
			rt.Fatal(broken)
		}
	})
}

// TestBodyWithdrawn: a body whose caller went away can't be pulled any more, and
// whoever reads it hears so soon.
func TestBodyWithdrawn(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		failed := make(chan error, 1)
		w := newWorld(t, time.Minute, func(j *job) {
			body, _, err := bus.PullBody(j.ctx, j.w.agent, j.m)
			if err != nil {
				failed <- err
				return
			}
			defer body.Close()
			_, err = io.Copy(io.Discard, slowly{body, 20 * time.Millisecond})
			failed <- err
		})
		defer w.stop()
		call := w.start(t.Context(), func(r *bus.Request) { r.Body = bigRequest(4 << 20) })
		time.Sleep(2 * time.Second)
		call.Close()
		began := time.Now()
		if err := <-failed; err == nil {
			t.Error("invariant 6: half a body ends like a whole one")
		}
		checkBetween(t, "heard", time.Since(began), 0, 3*time.Second)
		w.settle(time.Second)
	})
}

// TestBodyReader: the reader of a pulled body keeps the rules of io.Reader.
func TestBodyReader(t *testing.T) {
	body := bigRequest(bus.BodyPart + 1000)
	bustest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, time.Minute, func(j *job) {
			r, _, err := bus.PullBody(j.ctx, j.w.agent, j.m)
			if err != nil {
				t.Error(err)
				return
			}
			if err := iotest.TestReader(r, body); err != nil {
				t.Error(err)
			}
			_ = r.Close()
			if n, err := r.Read(make([]byte, 10)); n != 0 || err == nil {
				t.Errorf("after Close: %d, %v", n, err)
			}
			whole("ok")(j)
		})
		defer w.stop()
		call := w.start(t.Context(), func(r *bus.Request) { r.Body = body })
		if _, err := drain(call); err != nil {
			t.Error(err)
		}
		call.Close()
		w.settle(time.Second)
	})
}

// TestBodyOffers: an offer that is not one is refused before anything is pulled.
func TestBodyOffers(t *testing.T) {
	cases := map[string]bus.Header{
		"no size":       {bus.HeaderBody: {"tb.body.x.1"}},
		"negative":      {bus.HeaderBody: {"tb.body.x.1"}, bus.HeaderSize: {"-1"}},
		"words":         {bus.HeaderBody: {"tb.body.x.1"}, bus.HeaderSize: {"big"}},
		"other subject": {bus.HeaderBody: {"$JS.API.STREAM.PURGE.X"}, bus.HeaderSize: {"10"}},
		"no subject":    {bus.HeaderSize: {"10"}},
	}
	for name, h := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := bus.PullBody(t.Context(), nil, &bus.Msg{Header: h})
			checkReason(t, err, bus.ReasonBadRequest)
		})
	}
}
