package bus

import (
	"errors"
	"fmt"
	"strings"
)

// Limits on names, in bytes. A model id is measured before it is escaped, a
// subject after.
const (
	MaxModelBytes   = 200
	MaxIDBytes      = 64
	maxSubjectBytes = 400
)

// Queue groups and wildcard subscriptions.
const (
	SchedulerGroup  = "tb-sched"
	AllRequests     = "tb.req.*.*"
	AllBeats        = "tb.beat.*.*"       // full ones: who there is
	AllStates       = "tb.beat.*.*.state" // short ones: how busy it is, for schedulers
	AllSchedBeats   = "tb.sched.*.beat"
	PollSubject     = "tb.poll"
	interestSubject = "tb.trace"
)

// RequestSubject is where a request for model is published.
func RequestSubject(model string, api API) string {
	return "tb.req." + EncodeToken(model) + "." + string(api)
}

// ParseRequestSubject is the inverse of [RequestSubject].
func ParseRequestSubject(subject string) (model string, api API, err error) {
	rest, ok := strings.CutPrefix(subject, "tb.req.")
	if !ok {
		return "", "", fmt.Errorf("subject %q does not start with tb.req", subject)
	}
	token, name, ok := strings.Cut(rest, ".")
	if !ok || strings.Contains(name, ".") {
		return "", "", fmt.Errorf("subject %q is not tb.req.<model>.<api>", subject)
	}
	model, err = DecodeToken(token)
	return model, API(name), err
}

// DispatchSubject is where one agent process takes dispatches. The epoch is part
// of it, so two processes that claim one id can never both run a request.
func DispatchSubject(agent, epoch string) string {
	return "tb.agent." + EncodeToken(agent) + "." + epoch + ".req"
}

// AgentControlPrefix is the prefix of the control subjects of an agent process;
// the attempt id follows.
func AgentControlPrefix(agent, epoch string) string {
	return "tb.agent." + EncodeToken(agent) + "." + epoch + ".ctl."
}

// CommandSubject is where an operator reaches an agent, whatever its epoch.
func CommandSubject(agent, verb string) string {
	return "tb.agent." + EncodeToken(agent) + ".cmd." + verb
}

// ClaimSubject is where the processes that want an agent id find out about each other.
func ClaimSubject(agent string) string { return "tb.agent." + EncodeToken(agent) + ".claim" }

// StateSuffix follows a beat subject in short beats, which only schedulers need.
const StateSuffix = ".state"

// BeatSubject is where an agent says its record.
func BeatSubject(region, agent string) string {
	return "tb.beat." + EncodeToken(region) + "." + EncodeToken(agent)
}

// SchedulerAckSubject is where agents acknowledge the dispatches of a scheduler.
func SchedulerAckSubject(scheduler string) string { return "tb.sched." + scheduler + ".ack" }

// SchedulerFailSubject is where agents report an attempt that failed before its
// first byte; the attempt id is the last token.
func SchedulerFailSubject(scheduler, attempt string) string {
	return "tb.sched." + scheduler + ".fail." + attempt
}

// SchedulerControlPrefix is the prefix of the control subjects of the requests
// that wait in a scheduler; the ticket follows.
func SchedulerControlPrefix(scheduler string) string { return "tb.sched." + scheduler + ".ctl." }

// SchedulerBeatSubject is where a scheduler says that it lives.
func SchedulerBeatSubject(scheduler string) string { return "tb.sched." + scheduler + ".beat" }

// ReplyPrefix is the prefix of the reply inboxes of one connection of a caller.
func ReplyPrefix(caller string, shard int) string {
	return fmt.Sprintf("tb.reply.%s-%d.", caller, shard)
}

// BodyPrefix is the prefix of the subjects from which a caller's large request
// bodies are pulled.
func BodyPrefix(caller string) string { return "tb.body." + caller + "." }

// EventSubject is where something that people look at is said once.
func EventSubject(kind, model string) string {
	if model == "" {
		model = "-"
	}
	return "tb.event." + kind + "." + EncodeToken(model)
}

// ErrName tells that a name can't be used on the bus.
var ErrName = errors.New("name can't be used on the bus")

// CheckModel reports whether a model id fits into a subject.
func CheckModel(model string) error {
	switch {
	case model == "":
		return fmt.Errorf("%w: model is empty", ErrName)
	case len(model) > MaxModelBytes:
		return fmt.Errorf("%w: model is %d bytes long, the limit is %d", ErrName, len(model), MaxModelBytes)
	case len(EncodeToken(model))+len("tb.req..transcriptions") > maxSubjectBytes:
		return fmt.Errorf("%w: model is too long once escaped", ErrName)
	}
	return nil
}

// CheckID reports whether an agent id or a region can be used on the bus.
func CheckID(kind, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: %s is empty", ErrName, kind)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%w: %s is %d bytes long, the limit is %d", ErrName, kind, len(id), MaxIDBytes)
	}
	return nil
}

const upperHex = "0123456789ABCDEF"

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '/' || c == '-'
}

// EncodeToken turns any string into one subject token: bytes outside
// [A-Za-z0-9_/-] become =XX. The result is valid in KV keys too, and the empty
// string becomes "=", which nothing else does.
func EncodeToken(s string) string {
	if s == "" {
		return "="
	}
	escapes := 0
	for i := range len(s) {
		if !plain(s[i]) {
			escapes++
		}
	}
	if escapes == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*escapes)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = append(b, '=', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

// DecodeToken is the inverse of [EncodeToken]. It refuses every token that
// EncodeToken does not make, so that one name has one subject.
func DecodeToken(token string) (string, error) {
	if token == "=" {
		return "", nil
	}
	bad := func() (string, error) { return "", fmt.Errorf("%w: %q is not an encoded token", ErrName, token) }
	if token == "" {
		return bad()
	}
	if strings.IndexByte(token, '=') < 0 {
		for i := range len(token) {
			if !plain(token[i]) {
				return bad()
			}
		}
		return token, nil
	}
	b := make([]byte, 0, len(token))
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c != '=' {
			if !plain(c) {
				return bad()
			}
			b = append(b, c)
			continue
		}
		if i+2 >= len(token) {
			return bad()
		}
		hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if hi < 0 || lo < 0 {
			return bad()
		}
		c = byte(hi<<4 | lo)
		if plain(c) {
			return bad()
		}
		b = append(b, c)
		i += 2
	}
	return string(b), nil
}
