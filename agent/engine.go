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
	probeTimeout = 3 * time.Second
	refreshEvery = 10 * time.Second
	probesToDown = 3
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
			MaxIdleConnsPerHost: cfg.Capacity,
			IdleConnTimeout:     engineIdle,
			DisableCompression:  true,
			TLSHandshakeTimeout: 5 * time.Second,
		}
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	e := &engine{
		base: base, url: u, key: cfg.EngineKey, xKey: cfg.Provider == providerAnthropic,
		client: &http.Client{Transport: transport(), CheckRedirect: noRedirects},
		probes: &http.Client{Transport: transport(), CheckRedirect: noRedirects, Timeout: probeTimeout},
	}
	if u.Scheme == "http" {
		e.wire = &wire{addr: hostPort(u), dial: dial, max: cfg.Capacity}
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

// refused reports whether the engine took no connection, so that nothing ran.
func refused(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
