package bus

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
)

// PeerBeat is what a scheduler says of itself: that it lives, and how many requests
// wait in its queues.
type PeerBeat struct {
	ID      string
	Gone    bool                // it says goodbye
	Waiting map[string]int      // by model
	Aliases map[string][]string // models behind each alias
}

// The first line of a scheduler's beat.
const (
	peerReady = "ready"
	peerGone  = "gone"
)

// maxPeerModels bounds the models of a beat.
const maxPeerModels = 1000

// SayPeer says the beat of a scheduler: one line that says ready or gone, one for each
// model for which requests wait, and one for each alias.
func (l *Link) SayPeer(b PeerBeat) {
	line := peerReady
	if b.Gone {
		line = peerGone
	}
	text := []byte(line)
	n := 0
	for model, depth := range b.Waiting {
		if n++; n > maxPeerModels {
			break
		}
		text = append(text, '\n')
		text = append(text, EncodeToken(model)...)
		text = append(text, ' ')
		text = strconv.AppendInt(text, int64(depth), 10)
	}
	n = 0
	for alias, models := range b.Aliases {
		if n++; n > maxPeerModels {
			break
		}
		text = append(text, '\n')
		text = append(text, EncodeToken(alias)...)
		text = append(text, " ="...)
		for _, m := range models {
			text = append(text, ' ')
			text = append(text, EncodeToken(m)...)
		}
	}
	_ = l.Control.Publish(SchedulerBeatSubject(b.ID), text)
}

func decodePeerBeat(m *Msg) (PeerBeat, bool) {
	rest, ok1 := strings.CutPrefix(m.Subject, "tb.sched.")
	id, ok2 := strings.CutSuffix(rest, ".beat")
	lines := strings.Split(string(m.Data), "\n")
	if !ok1 || !ok2 || lines[0] != peerReady && lines[0] != peerGone {
		return PeerBeat{}, false
	}
	b := PeerBeat{ID: id, Gone: lines[0] == peerGone}
	for i, line := range lines[1:] {
		if i == 2*maxPeerModels || !b.line(line) {
			break
		}
	}
	return b, true
}

// line reads one line of a beat behind the first; false is one that is none.
func (b *PeerBeat) line(line string) bool {
	token, rest, _ := strings.Cut(line, " ")
	name, err := DecodeToken(token)
	if err != nil {
		return false
	}
	if targets, ok := strings.CutPrefix(rest, "="); ok {
		if b.Aliases == nil {
			b.Aliases = make(map[string][]string)
		}
		var models []string
		for t := range strings.FieldsSeq(targets) {
			m, err := DecodeToken(t)
			if err != nil {
				return false
			}
			models = append(models, m)
		}
		b.Aliases[name] = models
		return true
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return false
	}
	if b.Waiting == nil {
		b.Waiting = make(map[string]int)
	}
	b.Waiting[name] = n
	return true
}

// takeSubject is where a scheduler takes requests that others hand over to it.
func takeSubject(scheduler string) string { return "tb.sched." + scheduler + ".take" }

// HandOver gives a request to another scheduler; the caller's inbox is in its
// [HeaderReply]. [HolderHandlers.Handed] hears what came of it.
func (o *Holder) HandOver(peer string, m *Msg, ticket string) {
	_ = o.nc.PublishMsg(&nats.Msg{Subject: takeSubject(peer), Reply: o.prefix + ticket + "." + verbHanded, Header: m.Header, Data: m.Data})
}

// Taken tells the scheduler that handed a request over that it is in good hands.
func (o *Holder) Taken(m *Msg) { _ = o.nc.Publish(m.Reply, nil) }
