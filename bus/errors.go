package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Reason is the machine-readable cause of an error. It is the OpenAI error
// object's code and the metric label.
type Reason string

// The reasons. The table below gives each its HTTP status and OpenAI type.
const (
	ReasonBadRequest     Reason = "bad_request"
	ReasonRouteNotFound  Reason = "route_not_found"
	ReasonModelNotFound  Reason = "model_not_found"
	ReasonMethod         Reason = "method_not_allowed"
	ReasonTooLarge       Reason = "body_too_large"
	ReasonQueueFull      Reason = "queue_full"
	ReasonQueueTimeout   Reason = "queue_timeout"
	ReasonShed           Reason = "shed"
	ReasonNoAgents       Reason = "no_agents"
	ReasonNoScheduler    Reason = "no_scheduler"
	ReasonBusUnavailable Reason = "bus_unavailable"
	ReasonEngineBusy     Reason = "engine_busy"
	ReasonEngineError    Reason = "engine_error"
	ReasonEngineLost     Reason = "engine_lost"
	ReasonAgentLost      Reason = "agent_lost"
	ReasonDeadline       Reason = "deadline_exceeded"
	ReasonFirstByte      Reason = "first_byte_timeout"
	ReasonIdle           Reason = "stream_idle"
	ReasonSlowCaller     Reason = "slow_caller"
	ReasonCancelled      Reason = "cancelled"
	ReasonDraining       Reason = "draining"
	ReasonInternal       Reason = "internal"
)

var reasons = map[Reason]struct {
	status int
	kind   string
}{
	ReasonBadRequest:     {http.StatusBadRequest, "invalid_request_error"},
	ReasonRouteNotFound:  {http.StatusNotFound, "invalid_request_error"},
	ReasonModelNotFound:  {http.StatusNotFound, "invalid_request_error"},
	ReasonMethod:         {http.StatusMethodNotAllowed, "invalid_request_error"},
	ReasonTooLarge:       {http.StatusRequestEntityTooLarge, "invalid_request_error"},
	ReasonQueueFull:      {http.StatusTooManyRequests, "rate_limit_error"},
	ReasonShed:           {http.StatusTooManyRequests, "rate_limit_error"},
	ReasonQueueTimeout:   {http.StatusTooManyRequests, "rate_limit_error"},
	ReasonEngineBusy:     {http.StatusTooManyRequests, "rate_limit_error"},
	ReasonNoAgents:       {http.StatusServiceUnavailable, "server_error"},
	ReasonNoScheduler:    {http.StatusServiceUnavailable, "server_error"},
	ReasonBusUnavailable: {http.StatusServiceUnavailable, "server_error"},
	ReasonDraining:       {http.StatusServiceUnavailable, "server_error"},
	ReasonEngineError:    {http.StatusBadGateway, "server_error"},
	ReasonEngineLost:     {http.StatusBadGateway, "server_error"},
	ReasonAgentLost:      {http.StatusBadGateway, "server_error"},
	ReasonDeadline:       {http.StatusGatewayTimeout, "timeout_error"},
	ReasonFirstByte:      {http.StatusGatewayTimeout, "timeout_error"},
	ReasonIdle:           {http.StatusGatewayTimeout, "timeout_error"},
	ReasonSlowCaller:     {http.StatusRequestTimeout, "timeout_error"},
	ReasonCancelled:      {499, "cancelled_error"},
	ReasonInternal:       {http.StatusInternalServerError, "server_error"},
}

// Error is the one error type of the bus: what a caller is told. Message and Hint
// are for the user; the wrapped cause is for the log. None holds a credential or a
// piece of a prompt.
type Error struct {
	Reason     Reason
	Message    string
	Hint       string        // what the user can do, optional
	Param      string        // the request field that is wrong, optional
	RetryAfter time.Duration // when to come back; 0 if the error is not about time
	Peer       bool          // said by the other side of the bus, not made here
	Cause      error         // for the log, optional
}

// Errorf makes an [Error] with a formatted message. A %w verb sets the cause.
func Errorf(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Reason: reason, Message: err.Error(), Cause: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return string(e.Reason) + ": " + e.Message
	}
	return string(e.Reason) + ": " + e.Message + " (" + e.Hint + ")"
}

func (e *Error) Unwrap() error { return e.Cause }

// Status is the HTTP status of the error.
func (e *Error) Status() int {
	if r, ok := reasons[e.Reason]; ok {
		return r.status
	}
	return http.StatusInternalServerError
}

// Type is the error's type in OpenAI's error object.
func (e *Error) Type() string {
	if r, ok := reasons[e.Reason]; ok {
		return r.kind
	}
	return "server_error"
}

// RetryAfterSeconds is the value of a Retry-After header, at least 1, or "" if the
// error has none. A 429 and a 503 always have one.
func (e *Error) RetryAfterSeconds() string {
	d := e.RetryAfter
	if s := e.Status(); d <= 0 && (s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable) {
		d = time.Second
	}
	if d <= 0 {
		return ""
	}
	return strconv.Itoa(max(int(math.Ceil(d.Seconds())), 1))
}

// Text is what the user reads: the message and the hint.
func (e *Error) Text() string {
	if e.Hint == "" {
		return e.Message
	}
	return strings.TrimSuffix(e.Message, ".") + "; " + e.Hint
}

type errorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// JSON is the error as OpenAI's error object: {"error":{message,type,param,code}}.
func (e *Error) JSON() []byte {
	o := errorObject{Message: e.Message, Type: e.Type(), Code: string(e.Reason)}
	if e.Hint != "" {
		o.Message = e.Text()
	}
	if e.Param != "" {
		o.Param = &e.Param
	}
	b, err := json.Marshal(struct {
		Error errorObject `json:"error"`
	}{o})
	if err != nil {
		return []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}`)
	}
	return b
}

// SetHeaders writes the error the way NATS micro services do, with our reason
// beside it.
func (e *Error) SetHeaders(h Header) {
	set(h, HeaderErrorCode, strconv.Itoa(e.Status()))
	set(h, HeaderError, headerText(e.Message))
	set(h, HeaderReason, string(e.Reason))
	if e.Hint != "" {
		set(h, HeaderHint, headerText(e.Hint))
	}
	if e.Param != "" {
		set(h, HeaderParam, headerText(e.Param))
	}
	if s := e.RetryAfterSeconds(); s != "" {
		set(h, "Retry-After", s)
	}
}

// maxRetryAfter bounds what is believed of a Retry-After, in seconds: a year.
const maxRetryAfter = 365 * 24 * 3600

// ErrorFrom reads an error from the headers of a message, nil if there is none.
func ErrorFrom(h Header) *Error {
	if get(h, HeaderErrorCode) == "" {
		return nil
	}
	e := &Error{
		Reason: Reason(get(h, HeaderReason)), Message: get(h, HeaderError), Hint: get(h, HeaderHint),
		Param: get(h, HeaderParam), Peer: true,
	}
	if _, ok := reasons[e.Reason]; !ok {
		e.Reason = ReasonInternal
	}
	if s, ok := getInt(h, "Retry-After"); ok {
		e.RetryAfter = time.Duration(min(s, maxRetryAfter)) * time.Second
	}
	return e
}

// headerText makes a text safe for a NATS header value.
func headerText(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = ' '
		}
	}
	return string(b)
}

// AsError finds the [Error] in a chain, or wraps err as internal.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Reason: ReasonInternal, Message: "internal error", Cause: err}
}
