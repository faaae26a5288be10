package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tokenbus/tokenbus/agent/engine"
	"github.com/tokenbus/tokenbus/bus"
)

// Limits of what is read from an engine outside the request path.
const (
	maxListing   = 4 << 20
	refreshEvery = 10 * time.Second
	dialTimeout  = 5 * time.Second
)

// Idle sockets to the engine live shorter than the 5 s after which uvicorn closes
// them, so that a request rarely meets a socket that is being closed.
const engineIdle = 4 * time.Second

// engineClient is the HTTP side of an OpenAI-compatible engine.
type engineClient struct {
	base   string
	url    *url.URL
	key    string
	xKey   bool // the key goes into x-api-key, as Anthropic wants it
	client *http.Client
	wire   *wire                       // nil if the engine speaks TLS
	probes *http.Client                // apart, so that a probe never waits for a request's socket
	kind   atomic.Pointer[engine.Kind] // nil until the engine was found
	told   bool                        // the kind is not found out
}

// find tells of which kind the engine is.
func (e *engineClient) find(ctx context.Context) (*engine.Kind, error) {
	if k := e.kind.Load(); k != nil {
		return k, nil
	}
	k, err := engine.Detect(ctx, e)
	if err == nil {
		e.kind.Store(k)
	}
	return k, err
}

// forget makes the kind be found anew: behind the URL may be another engine when it
// comes back.
func (e *engineClient) forget() {
	if !e.told {
		e.kind.Store(nil)
	}
}

// path is the engine's own path for a request.
func (e *engineClient) path(api bus.API, path string) string {
	if k := e.kind.Load(); k != nil {
		return k.Path(api, path)
	}
	return path
}

// newEngine makes the client of an engine whose URL was validated.
func newEngine(cfg Config) (*engineClient, error) {
	base := strings.TrimSuffix(cfg.EngineURL, "/")
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext:         dial,
			MaxIdleConnsPerHost: maxIdle,
			IdleConnTimeout:     engineIdle,
			DisableCompression:  true,
			TLSHandshakeTimeout: 5 * time.Second,
		}
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	e := &engineClient{
		base: base, url: u, key: cfg.EngineKey, xKey: cfg.Provider == providerAnthropic,
		client: &http.Client{Transport: transport(), CheckRedirect: noRedirects},
		probes: &http.Client{Transport: transport(), CheckRedirect: noRedirects, Timeout: cfg.ProbeTimeout},
	}
	switch {
	case cfg.Engine != "":
		k, err := engine.Find(cfg.Engine)
		if err != nil {
			return nil, err
		}
		e.kind.Store(k)
	case cfg.Provider != "":
		e.kind.Store(engine.OpenAI) // it is asked on no route of another kind
	}
	e.told = e.kind.Load() != nil
	if u.Scheme == "http" {
		e.wire = &wire{addr: hostPort(u), dial: dial, max: maxIdle}
	}
	return e, nil
}

func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// do calls the engine for a request. inline tells that its body is in memory.
func (e *engineClient) do(ctx context.Context, req *http.Request, inline bool) (*http.Response, error) {
	if inline && e.wire != nil {
		return e.wire.do(ctx, req)
	}
	return e.client.Do(req.WithContext(ctx))
}

// The outside providers.
const (
	providerOpenAI    = "openai"
	providerAnthropic = "anthropic"
)

// anthropicVersion is what Anthropic's API asks for in each request; a caller's own
// value passes.
const anthropicVersion = "2023-06-01"

// authorize adds the engine's own key to the header of a request.
func (e *engineClient) authorize(h http.Header) {
	if e.xKey && h.Get("Anthropic-Version") == "" {
		h["Anthropic-Version"] = []string{anthropicVersion}
	}
	switch {
	case e.key == "":
	case e.xKey:
		h["X-Api-Key"] = []string{e.key}
	default:
		h["Authorization"] = []string{"Bearer " + e.key}
	}
}

func (e *engineClient) close() {
	if e.wire != nil {
		e.wire.close()
	}
	e.client.CloseIdleConnections()
	e.probes.CloseIdleConnections()
}

// Get implements [engine.Client].
func (e *engineClient) Get(ctx context.Context, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	e.authorize(req.Header)
	resp, err := e.probes.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxListing+1))
	if len(b) > maxListing {
		err = fmt.Errorf("%s answers more than %d bytes", path, maxListing)
	}
	return resp.StatusCode, b, err
}

// notServed are the answers of engines that have no such API for a model.
var notServed = []int{http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity}

// generate asks for the least that shows that the engine works: one token, or the
// embedding of a word where the model gives no tokens. It tells by which API.
func (e *engineClient) generate(ctx context.Context, model string) (bus.API, error) {
	name, err := json.Marshal(model)
	if err != nil {
		return "", err
	}
	var first error
	for _, try := range []struct {
		api  bus.API
		path string
		body string
	}{
		{bus.Completions, "/v1/completions", `{"model":%s,"prompt":"Hi","max_tokens":1}`},
		{bus.Chat, "/v1/chat/completions", `{"model":%s,"messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`},
		{bus.Embeddings, "/v1/embeddings", `{"model":%s,"input":"Hi"}`},
		{bus.Rerank, "/v1/rerank", `{"model":%s,"query":"Hi","documents":["Hi"],"texts":["Hi"]}`},
	} {
		status, _, err := e.post(ctx, e.path(try.api, try.path), fmt.Sprintf(try.body, name))
		switch {
		case err != nil:
			return try.api, err
		case status == http.StatusOK:
			return try.api, nil
		case first == nil:
			first = fmt.Errorf("%s answers %d", try.path, status)
		}
		if !slices.Contains(notServed, status) {
			return try.api, fmt.Errorf("%s answers %d", try.path, status)
		}
	}
	return "", first
}

// post sends JSON to the engine, beside the request path.
func (e *engineClient) post(ctx context.Context, path, body string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	e.authorize(req.Header)
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxListing))
	return resp.StatusCode, answer, err
}

// postJSON is post for a document.
func (e *engineClient) postJSON(ctx context.Context, path string, doc any) (status int, answer []byte, err error) {
	b, err := json.Marshal(doc)
	if err != nil {
		return 0, nil, err
	}
	return e.post(ctx, path, string(b))
}

// refused reports whether the engine took no connection, so that nothing ran.
func refused(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
