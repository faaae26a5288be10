package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Part is one process of the deployment, as it announces itself.
type Part struct {
	Name     string            `json:"name"` // tokenbus-gateway, tokenbus-scheduler, tokenbus-agent, tokenbus-bus
	ID       string            `json:"id"`   // of the announcement
	Version  string            `json:"version"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Parts asks all processes of Tokenbus who they are, by name and id. It gives those that
// answer until none has answered for the pause.
func (l *Link) Parts(ctx context.Context, pause time.Duration) ([]Part, error) {
	answers, err := l.Gather(ctx, "$SRV.INFO", nil, pause)
	var nobody *Error
	if errors.As(err, &nobody) || errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask who is on the bus: %w", err)
	}
	var list []Part
	for _, a := range answers {
		var p Part
		if json.Unmarshal(a, &p) == nil && strings.HasPrefix(p.Name, "tokenbus-") {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Part) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return list, nil
}

// ServerInfo is what a link knows of the NATS server that it is connected to.
type ServerInfo struct {
	URL        string  `json:"url"`
	Name       string  `json:"name"`
	Version    string  `json:"version"`
	Cluster    string  `json:"cluster,omitempty"`
	MaxPayload int     `json:"max_payload"`
	RTTMS      float64 `json:"rtt_ms"`
	JetStream  bool    `json:"jetstream"` // it answers
	Events     bool    `json:"events"`    // they are kept in TB_EVENTS
}

// ServerInfo asks the server. ctx must have a deadline.
func (l *Link) ServerInfo(ctx context.Context) (ServerInfo, error) {
	rtt, err := l.RoundTrip(ctx)
	if err != nil {
		return ServerInfo{}, fmt.Errorf("the bus does not answer: %w", err)
	}
	nc := l.Control
	i := ServerInfo{
		URL: nc.ConnectedUrlRedacted(), Name: nc.ConnectedServerName(), Version: nc.ConnectedServerVersion(), Cluster: nc.ConnectedClusterName(),
		MaxPayload: l.MaxPayload(), RTTMS: float64(rtt.Microseconds()) / 1000,
	}
	_, err = l.JS.AccountInfo(ctx)
	i.JetStream = err == nil
	if i.JetStream {
		_, err = l.JS.Stream(ctx, EventStream)
		i.Events = err == nil
	}
	return i, nil
}

// Allowed asks the server whether this connection may publish and subscribe on a
// subject. nil means yes.
func (l *Link) Allowed(ctx context.Context, subject string) error {
	sub, err := l.Control.SubscribeSync(subject)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	token := NewID()
	if err := l.Control.PublishMsg(&nats.Msg{Subject: subject, Data: []byte(token)}); err != nil {
		return err
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("a message on %s does not come back: %w", subject, err)
		}
		if string(m.Data) == token {
			return nil
		}
	}
}
