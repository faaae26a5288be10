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
	"strings"
	"syscall"
	"time"

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

// engine is the HTTP side of an OpenAI-compatible engine.
type engine struct {
	base   string
	url    *url.URL
	key    string
	xKey   bool // the key goes into x-api-key, as Anthropic wants it
	client *http.Client
	wire   *wire        // nil if the engine speaks TLS
	probes *http.Client // apart, so that a probe never waits for a request's socket
}

// newEngine makes the client of an engine whose URL was validated.
func newEngine(cfg Config) (*engine, error) {
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
	e := &engine{
		base: base, url: u, key: cfg.EngineKey, xKey: cfg.Provider == providerAnthropic,
		client: &http.Client{Transport: transport(), CheckRedirect: noRedirects},
		probes: &http.Client{Transport: transport(), CheckRedirect: noRedirects, Timeout: cfg.ProbeTimeout},
	}
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
func (e *engine) do(ctx context.Context, req *http.Request, inline bool) (*http.Response, error) {
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
func (e *engine) authorize(h http.Header) {
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

func (e *engine) close() {
	if e.wire != nil {
		e.wire.close()
	}
	e.client.CloseIdleConnections()
	e.probes.CloseIdleConnections()
}

func (e *engine) get(ctx context.Context, path string) (int, []byte, error) {
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

// health probes the engine. An engine without a health route is asked for its
// models instead.
func (e *engine) health(ctx context.Context) error {
	status, _, err := e.get(ctx, "/health")
	if err == nil && status == http.StatusNotFound {
		status, _, err = e.get(ctx, "/v1/models")
	}
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("/health answers %d", status)
	}
	return err
}

// models lists what the engine serves, with the engine's own cards.
func (e *engine) models(ctx context.Context) ([]bus.Model, error) {
	status, b, err := e.get(ctx, "/v1/models")
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("list models: the engine answers %d", status)
	}
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	var models []bus.Model
	for _, card := range list.Data {
		var m struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			MaxLen int     `json:"max_model_len"`
		}
		if json.Unmarshal(card, &m) != nil || bus.CheckModel(m.ID) != nil {
			continue
		}
		model := bus.Model{ID: m.ID, MaxModelLen: m.MaxLen, Card: card}
		if m.Parent != nil {
			model.Parent = *m.Parent
		}
		models = append(models, model)
	}
	if len(models) == 0 {
		return nil, errors.New("list models: the engine lists none that can be used")
	}
	return models, nil
}

// version asks for vLLM's version, "" if the engine has no such route.
func (e *engine) version(ctx context.Context) string {
	status, b, err := e.get(ctx, "/version")
	var v struct {
		Version string `json:"version"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(b, &v) != nil {
		return ""
	}
	return v.Version
}

// generate asks for the least that shows that the engine works: one token, or the
// embedding of a word where the model gives no tokens. It tells by which API.
func (e *engine) generate(ctx context.Context, model string) (bus.API, error) {
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
		{bus.Rerank, "/v1/rerank", `{"model":%s,"query":"Hi","documents":["Hi"]}`},
	} {
		status, err := e.post(ctx, try.path, fmt.Sprintf(try.body, name))
		switch {
		case err != nil:
			return try.api, err
		case status == http.StatusOK:
			return try.api, nil
		case first == nil:
			first = fmt.Errorf("%s answers %d", try.path, status)
		}
		if status != http.StatusNotFound && status != http.StatusBadRequest && status != http.StatusMethodNotAllowed && status != http.StatusUnprocessableEntity {
			return try.api, fmt.Errorf("%s answers %d", try.path, status)
		}
	}
	return "", first
}

// post sends JSON to the engine, beside the request path.
func (e *engine) post(ctx context.Context, path, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	e.authorize(req.Header)
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxListing))
	return resp.StatusCode, err
}

// refused reports whether the engine took no connection, so that nothing ran.
func refused(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
