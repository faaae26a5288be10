package bus

import (
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go/micro"
)

// Service makes a process visible to nats micro ls, info and stats.
type Service struct{ svc micro.Service }

// Command is one verb that a process answers, as a micro endpoint.
type Command struct {
	Name    string
	Subject string
	Run     func(arg []byte) (any, error) // the answer is sent as JSON
}

// Announce registers a process as a NATS micro service. Discovery, statistics and
// commands only: micro handlers are serial, so the data path has subscriptions of
// its own. Stop it with [Service.Stop].
func (l *Link) Announce(name, version, description string, meta map[string]string, commands ...Command) (*Service, error) {
	svc, err := micro.AddService(l.Control, micro.Config{
		Name: name, Version: version, Description: description, Metadata: meta, QueueGroupDisabled: true,
	})
	if err != nil {
		return nil, fmt.Errorf("announce the service: %w", err)
	}
	for _, c := range commands {
		h := micro.HandlerFunc(func(r micro.Request) {
			answer, err := c.Run(r.Data())
			if err != nil {
				e := AsError(err)
				_ = r.Error(fmt.Sprint(e.Status()), e.Message, e.JSON())
				return
			}
			b, err := json.Marshal(answer)
			if err != nil {
				_ = r.Error("500", err.Error(), nil)
				return
			}
			_ = r.Respond(b)
		})
		if err := svc.AddEndpoint(c.Name, h, micro.WithEndpointSubject(c.Subject)); err != nil {
			_ = svc.Stop()
			return nil, fmt.Errorf("announce %s: %w", c.Name, err)
		}
	}
	return &Service{svc: svc}, nil
}

// Stop makes the process invisible.
func (s *Service) Stop() { _ = s.svc.Stop() }
