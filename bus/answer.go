package bus

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Head is the beginning of an answer.
type Head struct {
	Status   int         // the engine's HTTP status
	Header   http.Header // the engine's end-to-end fields
	Length   int64       // bytes of the body, if the engine said; else -1
	Agent    string      // who serves
	Attempts int         // attempts that reached an agent, at least 1
	Queued   time.Duration
	Label    string // "policy/step/strategy" that chose the agent
	Model    string // that answers, if the request named an alias
}

// End is what is known when an answer is complete.
type End struct {
	Bytes    int64 // of the body
	Usage    Usage // valid if HasUsage
	HasUsage bool
	Timing   Timing
}

// Timing are durations measured by the agent.
type Timing struct {
	Queue  time.Duration // in the scheduler
	Accept time.Duration // from dispatch taken to engine called
	First  time.Duration // from engine called to its first byte of body
	Total  time.Duration // from dispatch taken to the last byte
}

func headFrom(h Header) *Head {
	head := &Head{Header: make(http.Header, len(h)), Agent: get(h, HeaderAgent), Label: get(h, HeaderLabel), Model: get(h, HeaderModel), Attempts: 1, Length: -1}
	if n, ok := getInt(h, HeaderLength); ok {
		head.Length = n
	}
	if n, ok := getInt(h, HeaderStatus); ok {
		head.Status = int(n)
	}
	if n, ok := getInt(h, HeaderAttempts); ok {
		head.Attempts = int(n)
	}
	if n, ok := getInt(h, HeaderQueueMs); ok {
		head.Queued = time.Duration(n) * time.Millisecond
	}
	for name, values := range h {
		if !Internal(name) {
			head.Header[name] = values
		}
	}
	return head
}

func endFrom(h Header) *End {
	end := &End{}
	end.Bytes, _ = getInt(h, HeaderBytes)
	end.Usage, end.HasUsage = parseUsage(get(h, HeaderUsage))
	var us [4]int64
	for i, s := range strings.Fields(get(h, HeaderTiming)) {
		if i < len(us) {
			us[i], _ = strconv.ParseInt(s, 10, 64)
		}
	}
	end.Timing = Timing{
		Queue: time.Duration(us[0]) * time.Microsecond, Accept: time.Duration(us[1]) * time.Microsecond,
		First: time.Duration(us[2]) * time.Microsecond, Total: time.Duration(us[3]) * time.Microsecond,
	}
	return end
}
