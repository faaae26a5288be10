package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// OrderAnswer is what an agent answers to a command that orders something: its record
// after that.
type OrderAnswer struct {
	Record
	Warning string `json:"warning,omitempty"` // the order is in force, but something is not as it should be
}

// Job is one request in flight at an agent.
type Job struct {
	Request   string    `json:"request"` // the caller's id
	Attempt   string    `json:"attempt"`
	Agent     string    `json:"agent"`
	Model     string    `json:"model"`
	Alias     string    `json:"alias,omitempty"` // under which the model was asked for
	API       string    `json:"api"`
	Stream    bool      `json:"stream"`
	State     string    `json:"state"`  // "waiting" for the engine's first byte, or "answering"
	Tokens    int64     `json:"tokens"` // prompt and expected output, estimated
	ElapsedMS int64     `json:"elapsed_ms"`
	Started   time.Time `json:"started"` // when the agent took it, by its clock
}

// Jobs are the requests in flight at one agent, the oldest first.
type Jobs struct {
	Agent   string `json:"agent"`
	Jobs    []Job  `json:"jobs"`
	Omitted int    `json:"omitted,omitempty"` // more than are named
}

// Check is what came of a request for one token that an agent made at its engine.
type Check struct {
	Agent string `json:"agent"`
	Model string `json:"model,omitempty"`
	API   string `json:"api,omitempty"`
	OK    bool   `json:"ok"`
	MS    int64  `json:"ms"`
	Error string `json:"error,omitempty"`
}

// ErrNoAgent tells that no live agent has that id.
var ErrNoAgent = errors.New("no agent of that id is on the bus")

// Command asks an agent to do what a verb says and decodes its answer into answer. It
// fails with [ErrNoAgent] if nobody answers to the id.
func (l *Link) Command(ctx context.Context, agent, verb string, arg, answer any) error {
	if err := CheckID("agent id", agent); err != nil {
		return err
	}
	var data []byte
	if arg != nil {
		var err error
		if data, err = json.Marshal(arg); err != nil {
			return fmt.Errorf("encode the argument of %s: %w", verb, err)
		}
	}
	m, err := l.Control.RequestMsgWithContext(ctx, &nats.Msg{Subject: CommandSubject(agent, verb), Data: data})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s %s: %w", verb, agent, ErrNoAgent)
	case err != nil:
		return fmt.Errorf("%s %s: %w", verb, agent, err)
	}
	if get(m.Header, HeaderErrorCode) != "" {
		var doc struct {
			Error struct {
				Message string `json:"message"`
				Code    Reason `json:"code"`
			} `json:"error"`
		}
		e := &Error{Reason: ReasonInternal, Message: get(m.Header, HeaderError), Peer: true}
		if json.Unmarshal(m.Data, &doc) == nil && doc.Error.Message != "" {
			e.Reason, e.Message = doc.Error.Code, doc.Error.Message
		}
		return fmt.Errorf("%s %s: %w", verb, agent, e)
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", verb, agent, err)
	}
	return nil
}
