package bus

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Class says what a failure before the first byte means for another try
// (design.md §7).
type Class string

// The classes.
const (
	ClassRefused     Class = "refused"      // never ran: no try is used
	ClassBusy        Class = "backpressure" // the engine's 429 or 503: a try
	ClassEngineError Class = "engine-error" // the engine's 5xx: a try
	ClassLost        Class = "lost"         // the connection broke: a try
)

// Failure is how an attempt failed before its first byte.
type Failure struct {
	Class  Class
	Agent  string
	Status int    // the engine's, 0 if it gave none
	Header Header // the engine's end-to-end fields
	Body   []byte
}

// failureTimeout bounds the wait for the scheduler's word that it has a report.
const failureTimeout = time.Second

// ReportFailure hands a failure to the scheduler that dispatched the attempt. An
// error means that nobody took it.
func (l *Link) ReportFailure(ctx context.Context, scheduler, attempt string, f Failure) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), failureTimeout)
	defer cancel()
	h := f.Header
	set(h, HeaderClass, string(f.Class))
	set(h, HeaderAgent, f.Agent)
	if f.Status != 0 {
		set(h, HeaderStatus, strconv.Itoa(f.Status))
	}
	_, err := l.Control.RequestMsgWithContext(ctx, &nats.Msg{Subject: SchedulerFailSubject(scheduler, attempt), Header: h, Data: f.Body})
	return err
}

// DecodeFailure reads a report.
func DecodeFailure(m *Msg) (attempt string, f Failure) {
	status, _ := getInt(m.Header, HeaderStatus)
	return lastToken(m.Subject), Failure{
		Class: Class(get(m.Header, HeaderClass)), Agent: get(m.Header, HeaderAgent), Status: int(status), Header: m.Header, Body: m.Data,
	}
}

// Err is the failure as an error, for a caller that gets no better answer.
func (f Failure) Err() *Error {
	switch {
	case f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable:
		return Errorf(ReasonEngineBusy, "the engine has no room for the request")
	case f.Class == ClassRefused:
		return Errorf(ReasonNoAgents, "the engine takes no connections")
	case f.Class == ClassEngineError:
		return Errorf(ReasonEngineError, "the engine answers %d", f.Status)
	}
	return Errorf(ReasonEngineLost, "the connection to the engine broke before its first byte")
}

// answer is the failure as the headers and body of a whole answer: the engine's
// own if it gave one, so that its status, body and Retry-After arrive as they are.
func (f Failure) answer(receipt Header) (Header, []byte, bool) {
	if f.Status == 0 {
		e := f.Err()
		e.SetHeaders(receipt)
		return receipt, e.JSON(), false
	}
	for name, v := range f.Header {
		if !Internal(name) {
			receipt[name] = v
		}
	}
	set(receipt, HeaderStatus, strconv.Itoa(f.Status))
	set(receipt, HeaderBytes, strconv.Itoa(len(f.Body)))
	return receipt, f.Body, true
}

// Failure tells the caller about a failure that no scheduler took.
func (s *Sender) Failure(f Failure, receipt Header) {
	h, body, engine := f.answer(receipt)
	kind := KindError
	if engine {
		kind = KindWhole
	} else {
		set(h, HeaderClass, string(f.Class))
	}
	if s.framed {
		_ = s.Send(kind, h, body)
		return
	}
	if engine {
		f.Err().SetHeaders(h)
		set(h, HeaderErrorCode, strconv.Itoa(f.Status))
	}
	_ = s.Raw(h, body)
}

// MaxPayload is the largest message that the server takes, in bytes.
func (l *Link) MaxPayload() int { return int(l.Data[0].MaxPayload()) }
