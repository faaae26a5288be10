package bus

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Msg is a NATS message.
type Msg = nats.Msg

// Header is a set of NATS headers. Names are case-sensitive on the wire; ours are
// written in the canonical form of net/http.
type Header = nats.Header

// Internal headers. Every NATS header of a request that is neither one of these
// nor NATS's own travels to the engine as an HTTP header, if it is end-to-end.
const (
	internalPrefix = "Tb-"
	natsPrefix     = "Nats-"

	HeaderWindow    = "Tb-Window"        // request: the caller takes frames; unacknowledged bytes it allows
	HeaderID        = "Tb-Request-Id"    // request: the caller's request id, for people and logs
	HeaderBudget    = "Tb-Budget-Ms"     // request, dispatch: time left, in milliseconds
	HeaderPath      = "Tb-Path"          // request: the engine path, if not the API's default
	HeaderQuery     = "Tb-Query"         // request: the query string
	HeaderModel     = "Tb-Model"         // dispatch: the model id
	HeaderAPI       = "Tb-Api"           // dispatch: the API
	HeaderAlias     = "Tb-Alias"         // dispatch: the name of the model in the request, which its answer gets, too
	HeaderShadow    = "Tb-Shadow"        // dispatch: 1 for a copy whose answer is dropped
	HeaderStream    = "Tb-Stream"        // request: 1 when a stream is asked for, else 0; absent if nobody looked
	HeaderBody      = "Tb-Body"          // request: subject from which the body is pulled; the payload is empty
	HeaderSize      = "Tb-Size"          // request: bytes of that body
	HeaderSplice    = "Tb-Splice"        // request: "offset remove text", an edit of the body; may be repeated
	HeaderStrip     = "Tb-Strip"         // request: "usage" when the usage chunk was not asked for by the caller
	HeaderModelAt   = "Tb-Model-At"      // request: "offset length" of the model in the body, if it names one
	HeaderTries     = "Tb-Tries"         // request, dispatch: tries that were used before
	HeaderExclude   = "Tb-Exclude"       // request: ids of agents not to use again, comma-separated
	HeaderTenant    = "Tb-Tenant"        // request: whose request it is
	HeaderSession   = "Tb-Session"       // request: hash of the session key, 16 hexadecimal digits
	HeaderPriority  = "Tb-Priority"      // request: the band, -1 to 100; absent for 0
	HeaderTokens    = "Tb-Tokens"        // request, dispatch: "prompt output", the tokens that are expected
	HeaderPrefix    = "Tb-Prefix"        // request: hashes of the prompt's blocks, see peek.Prefix; absent if it has no whole block
	HeaderPredicted = "Tb-Predicted"     // dispatch: permille of the prompt that the scheduler expects in the engine's prefix cache
	HeaderAttempt   = "Tb-Attempt"       // dispatch: the attempt id; names its control subject
	HeaderReply     = "Tb-Reply"         // dispatch: the caller's inbox; the message's own reply is the scheduler's
	HeaderSched     = "Tb-Sched"         // dispatch: id of the scheduler that dispatched
	HeaderHops      = "Tb-Hops"          // request: schedulers that handed it over to the owner of its queue
	HeaderLabel     = "Tb-Label"         // dispatch, head, whole, bare reply: "policy/step/strategy" that chose the agent
	HeaderQueueMs   = "Tb-Queue-Ms"      // dispatch, head: time spent in the queue
	HeaderFirstByte = "Tb-First-Byte-Ms" // dispatch: time for the first byte of a stream, in milliseconds
	HeaderStatus    = "Tb-Status"        // head, whole, bare reply: the engine's HTTP status
	HeaderLength    = "Tb-Length"        // head: bytes of the body, if the engine said
	HeaderAgent     = "Tb-Agent"         // head, whole, bare reply: who served
	HeaderAttempts  = "Tb-Attempts"      // head, whole, bare reply: attempts that reached an agent
	HeaderReason    = "Tb-Reason"        // error: machine-readable reason
	HeaderHint      = "Tb-Hint"          // error: what the user can do
	HeaderParam     = "Tb-Param"         // error: the field that is wrong
	HeaderClass     = "Tb-Class"         // failure report: the retry class
	HeaderBytes     = "Tb-Bytes"         // end: bytes of the body
	HeaderUsage     = "Tb-Usage"         // end: "prompt completion cached" in tokens, if the engine said
	HeaderTiming    = "Tb-Timing-Us"     // end: "queue accept first total" in microseconds, as the agent saw them

	HeaderErrorCode = "Nats-Service-Error-Code" // NATS micro's own
	HeaderError     = "Nats-Service-Error"
)

// Internal reports whether a header belongs to the bus and never leaves it.
func Internal(name string) bool {
	return hasPrefixFold(name, internalPrefix) || hasPrefixFold(name, natsPrefix)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// FirstHeader is the first value of a header, "" if absent. The name is matched
// exactly.
func FirstHeader(h Header, name string) string { return get(h, name) }

// get is Header.Get without canonicalisation or case folding.
func get(h Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func set(h Header, name, value string) { h[name] = []string{value} }

func getInt(h Header, name string) (int64, bool) {
	v := get(h, name)
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	return n, err == nil && n >= 0
}

// Budget is the time left to a request; ok is false if the caller gave none.
func Budget(h Header) (time.Duration, bool) {
	ms, ok := getInt(h, HeaderBudget)
	if !ok || ms > int64(24*time.Hour/time.Millisecond)*365 {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// FirstByteTimeout is how long an attempt at a stream may take to its first byte, 0
// if there is no such limit.
func FirstByteTimeout(h Header) time.Duration {
	ms, _ := getInt(h, HeaderFirstByte)
	return time.Duration(min(ms, int64(time.Hour/time.Millisecond))) * time.Millisecond
}

// SetBudget writes the time left, rounded up so that it is never 0 before its
// time.
func SetBudget(h Header, left time.Duration) {
	ms := max(int64((left+time.Millisecond-1)/time.Millisecond), 0)
	set(h, HeaderBudget, strconv.FormatInt(ms, 10))
}

// Bands of priority. A higher one goes first; a request that names none is in band 0.
const (
	MinPriority = -1
	MaxPriority = 100
)

// Priority is the band of a request, 0 if it names none that exists.
func Priority(h Header) int {
	n, err := strconv.Atoi(get(h, HeaderPriority))
	if err != nil || n < MinPriority || n > MaxPriority {
		return 0
	}
	return n
}

// Session is the hash of a request's session key; ok is false if it has none.
func Session(h Header) (hash uint64, ok bool) {
	v := get(h, HeaderSession)
	if len(v) != 16 {
		return 0, false
	}
	hash, err := strconv.ParseUint(v, 16, 64)
	return hash, err == nil
}

// hopByHop are the header fields that end at one connection (RFC 9110 §7.6.1),
// and those that each side's HTTP library makes itself.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Content-Length": true, "Host": true, "Expect": true,
}

// ownResponse are fields of a response that the gateway says itself.
var ownResponse = map[string]bool{"Date": true, "Server": true, "X-Request-Id": true}

// credential are fields that carry the client's secrets or a client's claim about
// who it is: they end at the gateway.
var credential = map[string]bool{
	"Authorization": true, "X-Api-Key": true, "Api-Key": true, "Cookie": true,
	"X-Request-Id": true, "X-Forwarded-For": true, "X-Forwarded-Host": true,
	"X-Forwarded-Proto": true, "X-Real-Ip": true, "Forwarded": true,
	// The metered stream is read on its way, so the engine must not compress it.
	"Accept-Encoding": true,
}

// RequestHeaders copies into dst the fields of an HTTP request that pass to the
// engine.
func RequestHeaders(dst Header, src http.Header) {
	listed := connectionListed(src)
	for name, values := range src {
		if hopByHop[name] || credential[name] || Internal(name) || listed[name] || hasPrefixFold(name, "X-Tokenbus-") {
			continue
		}
		dst[name] = values
	}
}

// EngineRequestHeaders copies into dst the fields of a bus request that pass to
// the engine, whoever published it.
func EngineRequestHeaders(dst http.Header, src Header) {
	var listed map[string]bool
	for name, values := range src {
		if strings.EqualFold(name, "Connection") {
			listed = connectionListed(http.Header{"Connection": values})
		}
	}
	for name, values := range src {
		if Internal(name) {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		if hopByHop[name] || credential[name] || listed[name] {
			continue
		}
		dst[name] = values
	}
}

// ResponseHeaders copies into dst the fields of an engine's response that pass to
// the caller.
func ResponseHeaders(dst Header, src http.Header) {
	listed := connectionListed(src)
	for name, values := range src {
		if hopByHop[name] || ownResponse[name] || Internal(name) || listed[name] {
			continue
		}
		dst[name] = values
	}
}

// connectionListed are the fields that the Connection field declares hop-by-hop;
// nil in the common case that there are none.
func connectionListed(h http.Header) map[string]bool {
	var listed map[string]bool
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if name == "" || name == "Close" || hopByHop[name] {
				continue
			}
			if listed == nil {
				listed = make(map[string]bool)
			}
			listed[name] = true
		}
	}
	return listed
}
