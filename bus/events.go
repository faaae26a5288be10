package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// EventStream keeps what was said on tb.event.>.
const EventStream = "TB_EVENTS"

// Bounds of the stream of events.
const (
	allEvents     = "tb.event.>"
	eventsMaxAge  = 7 * 24 * time.Hour
	eventsMaxSize = 256 << 20
	eventMaxSize  = 64 << 10
)

// EnsureEvents makes the stream of events if there is none. It is written behind: what
// was said in the last moments before the server loses power may be missing.
func (l *Link) EnsureEvents(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	_, err := l.JS.Stream(ctx, EventStream)
	if err == nil {
		return nil
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("open %s: %w: %w", EventStream, ErrNoJetStream, err)
	}
	cfg := jetstream.StreamConfig{
		Name: EventStream, Description: "what happened, for people", Subjects: []string{allEvents}, Storage: jetstream.FileStorage,
		Discard: jetstream.DiscardOld, MaxAge: eventsMaxAge, MaxBytes: eventsMaxSize, MaxMsgSize: eventMaxSize, NoAck: true, Replicas: 1,
	}
	if l.Control.ConnectedClusterName() != "" {
		cfg.Replicas = clusterCopies
		if _, err = l.JS.CreateStream(ctx, cfg); err == nil {
			return nil
		}
		cfg.Replicas = 1
	}
	cfg.PersistMode = jetstream.AsyncPersistMode
	if _, err = l.JS.CreateStream(ctx, cfg); err != nil {
		cfg.PersistMode = jetstream.DefaultPersistMode // the server is older than 2.12
		_, err = l.JS.CreateStream(ctx, cfg)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("make %s: %w: %w", EventStream, ErrNoJetStream, err)
	}
	return nil
}

// Event is something that was said on tb.event.>.
type Event struct {
	Revision uint64          `json:"revision,omitempty"` // its number in TB_EVENTS; 0: it is not kept there
	Time     time.Time       `json:"time"`
	Kind     string          `json:"kind"`
	Model    string          `json:"model,omitempty"`
	Data     json.RawMessage `json:"data"`
}

func newEvent(subject string, data []byte, revision uint64, at time.Time) (Event, bool) {
	kind, token, ok := strings.Cut(strings.TrimPrefix(subject, "tb.event."), ".")
	if !ok || !json.Valid(data) {
		return Event{}, false
	}
	e := Event{Revision: revision, Time: at.UTC(), Kind: kind, Data: data}
	if token != "-" {
		e.Model, _ = DecodeToken(token)
	}
	return e, true
}

// WatchEvents calls f with events until ctx ends or f fails. With after, it begins with
// the event of the next revision; otherwise with the events since a time, or with those
// to come if that is zero. If events are not kept only those to come are seen, without
// a revision.
func (l *Link) WatchEvents(ctx context.Context, after uint64, since time.Time, f func(Event) error) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}
	switch {
	case after > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after+1
	case !since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	open, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	c, err := l.JS.OrderedConsumer(open, EventStream, cfg)
	if err != nil {
		return l.liveEvents(ctx, f)
	}
	messages, err := c.Messages()
	if err != nil {
		return fmt.Errorf("read %s: %w", EventStream, err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", EventStream, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			continue
		}
		if e, ok := newEvent(m.Subject(), m.Data(), meta.Sequence.Stream, meta.Timestamp); ok {
			if err := f(e); err != nil {
				return err
			}
		}
	}
}

func (l *Link) liveEvents(ctx context.Context, f func(Event) error) error {
	c := make(chan *nats.Msg, 256)
	sub, err := l.Control.ChanSubscribe(allEvents, c)
	if err != nil {
		return fmt.Errorf("listen for events: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-c:
			if e, ok := newEvent(m.Subject, m.Data, 0, time.Now()); ok {
				if err := f(e); err != nil {
					return err
				}
			}
		}
	}
}
