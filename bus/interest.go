package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// goneAfter is how long the server must go on saying "no responders" before an
// inbox counts as gone: a caller that reconnects is back sooner.
const goneAfter = 500 * time.Millisecond

// Interest tells from the server's "no responders" whether somebody listens to a
// reply inbox. It is not safe for concurrent use.
type Interest struct {
	since time.Time // of the first word in an unbroken row; zero if there is none
	said  bool      // since the last probe
}

// Nobody takes the server's word that nobody listens.
func (i *Interest) Nobody(now time.Time) {
	i.said = true
	if i.since.IsZero() {
		i.since = now
	}
}

// Probed is called before each probe. A probe that brought no such word breaks the
// row.
func (i *Interest) Probed() {
	if !i.said {
		i.since = time.Time{}
	}
	i.said = false
}

// Gone reports whether nobody has listened for long enough.
func (i *Interest) Gone(now time.Time) bool {
	return !i.since.IsZero() && now.Sub(i.since) >= goneAfter
}

// probe asks the server whether anybody listens to a reply inbox, without
// delivering anything: a traced message that is not delivered still makes the
// server say "no responders" when nobody would have got it. A bare caller must see
// exactly one message, so a keepalive is no way to ask. A server without tracing
// would deliver the message, so it is not asked; then only what is really sent
// shows that a caller is gone.
func probe(nc *nats.Conn, reply, control string) {
	if !traces(nc.ConnectedServerVersion()) {
		return
	}
	_ = nc.PublishMsg(&nats.Msg{Subject: reply, Reply: frameReply(control, KindKeepalive, 0), Header: Header{
		"Nats-Trace-Dest": []string{interestSubject}, "Nats-Trace-Only": []string{"true"},
	}})
}

// traces reports whether a server of that version knows message tracing, which
// came with 2.11.
func traces(version string) bool {
	var major, minor int
	n, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return err == nil && n == 2 && (major > 2 || major == 2 && minor >= 11)
}
