package bus

import (
	"context"
	"time"
)

// ExplainSubject asks all schedulers for their record of a request, by its id.
const ExplainSubject = "tb.sched.explain"

// gatherMost bounds the answers to one question.
const gatherMost = 1024

// Gather asks a question that any number of processes may answer, and gives the
// answers that are no errors: all that come until nothing has come for the pause, the
// first of which may take until ctx ends.
func (l *Link) Gather(ctx context.Context, subject string, data []byte, pause time.Duration) ([][]byte, error) {
	inbox := l.Control.NewRespInbox()
	sub, err := l.Control.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := l.Control.PublishRequest(subject, inbox, data); err != nil {
		return nil, err
	}
	var answers [][]byte
	for len(answers) < gatherMost {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if len(answers) > 0 {
			wait, cancel = context.WithTimeout(ctx, pause)
		}
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		switch {
		case err != nil && len(answers) > 0:
			return answers, nil
		case err != nil:
			return nil, err
		case noResponders(m):
			return nil, Errorf(ReasonNoScheduler, "nobody answers on %s", subject)
		case get(m.Header, HeaderErrorCode) == "":
			answers = append(answers, m.Data)
		}
	}
	return answers, nil
}
