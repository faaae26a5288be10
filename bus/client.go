package bus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/tokenbus/tokenbus/bus/peek"
)

// Timings of a caller.
const (
	DefaultTimeout  = 10 * time.Minute        // to the first byte of a stream, or the whole of another answer
	pingAfter       = 1200 * time.Millisecond // of silence
	lostAfter       = 2 * time.Second         // of silence, when the server says that the holder is gone
	silenceLimit    = 2800 * time.Millisecond // of silence, whatever the server says
	schedulerGrace  = 3 * time.Second         // to find a scheduler when none listens
	resubmitPause   = 100 * time.Millisecond
	maxTries        = 3
	windowPerServer = maxPending / 2 // window × streams stays below it
)

// Request is one request to a model.
type Request struct {
	Model  string // "" takes the model that the body names
	API    API
	Path   string      // engine path; "" is the API's default
	Query  string      // raw query string
	ID     string      // request id for people and logs; "" makes one
	Header http.Header // fields that pass to the engine; Content-Type "" is JSON
	Body   []byte      // not changed, and not to be changed until the call is closed
	Facts  *peek.Facts // what the body says, if that is known already

	Tenant string // whose request it is, "" if nobody's
	// Session names what belongs together, such as a conversation, so that one agent
	// can serve it. If it is "", the header fields X-Tokenbus-Session and X-Session-Id
	// count, then what the body says.
	Session string
	// Priority is a band from [MinPriority] to [MaxPriority]; at 0 the header field
	// X-Tokenbus-Priority counts.
	Priority int

	// Timeout bounds the time to the first byte of a stream, or to the end of any
	// other answer: queue, tries and engine together. 0 is [DefaultTimeout].
	Timeout time.Duration
}

// Client publishes requests and takes framed answers. It is what a gateway is made
// of, and what an internal service uses instead of HTTP. It is safe for concurrent
// use.
type Client struct {
	link   *Link
	id     string
	shards []*shard
	next   atomic.Uint64
	active atomic.Int64
	subs   []*nats.Subscription
	local  func(*Msg) bool
	owned  context.CancelFunc // of a client made by Connect
	done   chan struct{}

	stats clientStats
}

type shard struct {
	nc     *nats.Conn
	prefix string
	lastUp atomic.Int64 // unix nanoseconds of the last reconnect

	mu    sync.Mutex
	calls map[uint64]*Call
}

type clientStats struct{ resends, repaired, duplicates, resubmits, strays atomic.Uint64 }

// ClientStats counts what went on behind the calls' backs.
type ClientStats struct {
	Resends    uint64 // gaps that were asked for again
	Repaired   uint64 // gaps that were filled then
	Duplicates uint64 // frames dropped because they were here
	Resubmits  uint64 // requests published again before their first byte
	Strays     uint64 // frames for calls that are over
}

// Connect makes a client with connections of its own. Close it after use.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Name == "" {
		cfg.Name = "tokenbus client"
	}
	link, err := Dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	c, err := NewClient(link)
	if err != nil {
		link.Close()
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.owned, c.done = cancel, make(chan struct{})
	go func() {
		defer close(c.done)
		_ = c.Run(run)
	}()
	return c, nil
}

// Close ends a client made by [Connect] and all its calls.
func (c *Client) Close() {
	if c.owned == nil {
		return
	}
	c.owned()
	<-c.done
	c.link.Close()
}

// NewClient makes a client on the data and bulk connections of a link. The caller
// runs [Client.Run].
func NewClient(link *Link) (*Client, error) {
	c := &Client{link: link, id: nuid.Next()}
	for i, nc := range link.Data {
		sh := &shard{nc: nc, prefix: ReplyPrefix(c.id, i), calls: make(map[uint64]*Call)}
		c.shards = append(c.shards, sh)
		sub, err := subscribe(nc, sh.prefix+"*", "", func(m *Msg) { c.frame(sh, m) })
		if err != nil {
			return nil, err
		}
		c.subs = append(c.subs, sub)
	}
	sub, err := subscribe(link.Bulk, BodyPrefix(c.id)+"*", "", c.serveBody)
	if err != nil {
		return nil, err
	}
	c.subs = append(c.subs, sub)
	link.OnReconnect(c.reconnected)
	return c, nil
}

// UseScheduler makes the client offer its requests to a scheduler in the same
// process, which saves two passages over the bus. take reports whether it took the
// request; if not, the request is published. It must not block. Call it before the
// first request.
func (c *Client) UseScheduler(take func(*Msg) bool) { c.local = take }

// ID names the client on the bus; it is new for each client.
func (c *Client) ID() string { return c.id }

// Active is the number of calls that are not closed.
func (c *Client) Active() int { return int(c.active.Load()) }

// Stats gives the counts so far.
func (c *Client) Stats() ClientStats {
	return ClientStats{
		Resends: c.stats.resends.Load(), Repaired: c.stats.repaired.Load(), Duplicates: c.stats.duplicates.Load(),
		Resubmits: c.stats.resubmits.Load(), Strays: c.stats.strays.Load(),
	}
}

// Run watches over the calls until ctx ends; then it fails those that are left.
func (c *Client) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	defer func() {
		for _, sub := range c.subs {
			_ = sub.Unsubscribe()
		}
	}()
	var list []*Call
	for {
		select {
		case <-ctx.Done():
			for _, call := range c.calls(nil) {
				call.abort(Errorf(ReasonCancelled, "the client was closed"))
			}
			return nil
		case now := <-t.C:
			list = c.calls(list[:0])
			for i, call := range list {
				call.watch(now)
				list[i] = nil
			}
		}
	}
}

func (c *Client) calls(list []*Call) []*Call {
	for _, sh := range c.shards {
		sh.mu.Lock()
		for _, call := range sh.calls {
			list = append(list, call)
		}
		sh.mu.Unlock()
	}
	return list
}

func (c *Client) lookup(token uint64) *Call {
	sh := c.shards[token%uint64(len(c.shards))]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.calls[token]
}

// frame takes one message from the reply subscription of a shard. It never blocks.
func (c *Client) frame(sh *shard, m *Msg) {
	token, err := strconv.ParseUint(m.Subject[len(sh.prefix):], 36, 64)
	if err != nil {
		return
	}
	sh.mu.Lock()
	call := sh.calls[token]
	sh.mu.Unlock()
	control, kind, seq, ok := parseFrameReply(m.Reply)
	if call == nil {
		// Whoever still works for a call that is over must hear of it.
		if ok {
			c.stats.strays.Add(1)
			verb := verbCancel
			if kind.Final() {
				verb = verbAck + "." + strconv.FormatUint(seq, 10)
			}
			_ = sh.nc.Publish(control+"."+verb, nil)
		}
		return
	}
	switch {
	case ok:
		call.take(control, kind, seq, m)
	case noResponders(m):
		call.nobody()
	}
}

// reconnected asks for what may have been lost while a connection was away.
func (c *Client) reconnected() {
	now := time.Now()
	for _, sh := range c.shards {
		if sh.nc.IsConnected() {
			sh.lastUp.Store(now.UnixNano())
		}
	}
	for _, call := range c.calls(nil) {
		call.mu.Lock()
		call.askAgain(now, true)
		call.mu.Unlock()
	}
}

// window is what a new call may leave unacknowledged, in bytes: less when there
// are many, so that a caller that stops reading never makes the server cut the
// connection.
func (c *Client) window() int {
	per := int64(len(c.shards)) * windowPerServer / max(c.active.Load(), 1)
	return int(min(max(per, MinWindow), DefaultWindow))
}

// Start publishes a request. The call ends with ctx. Errors are of type [*Error].
// The call must be closed.
func (c *Client) Start(ctx context.Context, req Request) (*Call, error) {
	facts, err := check(&req)
	if err != nil {
		return nil, err
	}
	call := &Call{c: c, wake: make(chan struct{}, 1), body: req.Body, started: time.Now(), window: c.window()}
	call.timeout = req.Timeout
	call.streaming = facts.Stream
	call.subject = RequestSubject(req.Model, req.API)
	call.header = requestHeader(&req, &facts)
	c.active.Add(1)
	call.mu.Lock()
	call.submit(time.Now())
	call.mu.Unlock()
	call.stop = context.AfterFunc(ctx, func() {
		call.abort(&Error{Reason: ReasonCancelled, Message: "the caller went away", Cause: context.Cause(ctx)})
	})
	return call, nil
}

// check completes a request and finds what is wrong with it.
func check(req *Request) (peek.Facts, *Error) {
	var facts peek.Facts
	if req.Facts != nil {
		facts = *req.Facts
	} else {
		var err error
		if facts, err = Peek(req.API, req.Header.Get("Content-Type"), req.Body); err != nil {
			return facts, AsError(err)
		}
	}
	if req.Model == "" {
		req.Model = facts.Model
	}
	if req.Model == "" {
		return facts, &Error{Reason: ReasonBadRequest, Param: "model", Message: "the request names no model", Hint: `add "model" to the body`}
	}
	if facts.Model != "" && facts.Model != req.Model {
		return facts, &Error{Reason: ReasonBadRequest, Param: "model", Message: fmt.Sprintf("the body names model %q, the request %q", facts.Model, req.Model)}
	}
	if err := CheckModel(req.Model); err != nil {
		return facts, &Error{Reason: ReasonBadRequest, Param: "model", Message: err.Error(), Cause: err}
	}
	if _, ok := req.API.EnginePath(req.Path); !ok {
		return facts, Errorf(ReasonRouteNotFound, "path %q is not one of the API %q", req.Path, req.API)
	}
	if err := claim(req); err != nil {
		return facts, err
	}
	if req.Timeout <= 0 {
		req.Timeout = DefaultTimeout
	}
	if req.ID == "" {
		req.ID = NewRequestID()
	}
	return facts, nil
}

// Header fields in which an HTTP client names its session, the first that is there
// counts, and its priority.
var sessionFields = [...]string{"X-Tokenbus-Session", "X-Session-Id"}

const priorityField = "X-Tokenbus-Priority"

// claim completes the session and the priority of a request from its header fields.
// Any text is a session; a priority that is none is an error, for a request that
// silently waits in another band than it asked for is hard to explain.
func claim(req *Request) *Error {
	for _, name := range sessionFields {
		if req.Session == "" {
			req.Session = strings.TrimSpace(req.Header.Get(name))
		}
	}
	param := "priority"
	if text := strings.TrimSpace(req.Header.Get(priorityField)); req.Priority == 0 && text != "" {
		param = priorityField
		var err error
		if req.Priority, err = strconv.Atoi(text); err != nil {
			req.Priority = MaxPriority + 1
		}
	}
	if req.Priority < MinPriority || req.Priority > MaxPriority {
		return &Error{Reason: ReasonBadRequest, Param: param, Message: fmt.Sprintf("the priority must be an integer from %d to %d", MinPriority, MaxPriority)}
	}
	return nil
}

// NewID makes an id that is unique in the fleet and one subject token.
func NewID() string { return nuid.Next() }

// NewRequestID makes a request id.
func NewRequestID() string { return "req-" + nuid.Next() }

// Peek reads the facts of a body by its API. The error is an [*Error].
func Peek(api API, contentType string, body []byte) (peek.Facts, error) {
	var facts peek.Facts
	var err error
	if api.Multipart() {
		facts, err = peek.Form(contentType, body)
	} else {
		facts, err = peek.JSON(body)
	}
	var e *peek.Error
	if errors.As(err, &e) {
		return facts, &Error{Reason: ReasonBadRequest, Param: e.Field, Message: e.Error(), Cause: err}
	}
	return facts, err
}

func requestHeader(req *Request, facts *peek.Facts) Header {
	h := make(Header, len(req.Header)+12)
	RequestHeaders(h, req.Header)
	if len(h["Content-Type"]) == 0 {
		set(h, "Content-Type", "application/json")
	}
	set(h, HeaderID, req.ID)
	if req.Path != "" {
		set(h, HeaderPath, req.Path)
	}
	if req.Query != "" {
		set(h, HeaderQuery, headerText(req.Query))
	}
	if req.Tenant != "" {
		set(h, HeaderTenant, headerText(req.Tenant))
	}
	if req.Session != "" {
		setSession(h, req.Session)
	}
	if req.Priority != 0 {
		set(h, HeaderPriority, strconv.Itoa(req.Priority))
	}
	Describe(h, req.API, req.Model, facts, req.Body)
	if len(req.Body) > InlineBody {
		set(h, HeaderSize, strconv.Itoa(len(req.Body)))
	}
	return h
}

// setSession writes the hash of a session key. The keys of two tenants are two
// sessions.
func setSession(h Header, key string) {
	set(h, HeaderSession, fmt.Sprintf("%016x", peek.Seed(get(h, HeaderTenant), key)))
}

// Call runs a request that does not stream and gives its whole answer.
func (c *Client) Call(ctx context.Context, req Request) (*Answer, error) {
	call, err := c.Start(ctx, req)
	if err != nil {
		return nil, err
	}
	defer call.Close()
	head, err := call.Head()
	if err != nil {
		return nil, err
	}
	a := &Answer{Head: *head}
	for {
		part, err := call.Read()
		if err != nil {
			if end := call.End(); end != nil {
				a.End = *end
				return a, nil
			}
			return nil, err
		}
		a.Body = append(a.Body, part...)
	}
}

// Answer is a whole answer: what the engine said, and what the bus knows of it.
type Answer struct {
	Head
	End
	Body []byte
}

// OK reports whether the engine answered with a 2xx status.
func (a *Answer) OK() bool { return a.Status/100 == 2 }

func lastToken(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
