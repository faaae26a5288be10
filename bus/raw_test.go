package bus_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/tokenbus/tokenbus/bus"
)

// raw is a caller without a client: it sees each message, and says only what the
// test says.
type raw struct {
	w     *world
	inbox string
	leave func()

	mu   sync.Mutex
	msgs []*bus.Msg
}

// rawCaller publishes a request and listens to its inbox.
func (w *world) rawCaller(name string, h bus.Header) *raw {
	w.t.Helper()
	r := &raw{w: w, inbox: bus.ReplyPrefix(name, 0) + "1"}
	nc := w.caller.Data[0]
	sub, err := w.caller.Subscribe(nc, r.inbox, "", func(m *bus.Msg) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.msgs = append(r.msgs, m)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	r.leave = func() { _ = sub.Unsubscribe() }
	w.flush()
	if err := nc.PublishMsg(&bus.Msg{Subject: bus.RequestSubject("m", bus.Chat), Reply: r.inbox, Header: h, Data: []byte(`{}`)}); err != nil {
		w.t.Fatal(err)
	}
	w.flush()
	return r
}

// say publishes a word about the attempt.
func (r *raw) say(word string) {
	r.w.t.Helper()
	if err := r.w.caller.Data[0].Publish(r.w.first().Control()+"."+word, nil); err != nil {
		r.w.t.Fatal(err)
	}
}

// take gives what came since the last time.
func (r *raw) take() []*bus.Msg {
	r.mu.Lock()
	defer r.mu.Unlock()
	msgs := r.msgs
	r.msgs = nil
	return msgs
}

// frame counts the frames of a kind and number among messages.
func frames(j *job, msgs []*bus.Msg, kind bus.Kind, seq uint64) (n int) {
	for _, m := range msgs {
		if m.Reply == bus.FrameReply(j.Control(), kind, seq) {
			n++
		}
	}
	return n
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
