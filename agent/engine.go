package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
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
)

// Idle sockets to the engine live shorter than the 5 s after which uvicorn closes
// them, so that a request rarely meets a socket that is being closed.
const engineIdle = 4 * time.Second

// engine is the HTTP side of an OpenAI-compatible engine.
type engine struct {
	base   string
	key    string
	client *http.Client
	probes *http.Client // apart, so that a probe never waits for a request's socket
}

func newEngine(cfg Config) *engine {
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext:         cfg.Dial,
			MaxIdleConnsPerHost: cfg.Capacity,
			IdleConnTimeout:     engineIdle,
			DisableCompression:  true,
			TLSHandshakeTimeout: 5 * time.Second,
		}
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &engine{
		base: strings.TrimSuffix(cfg.EngineURL, "/"), key: cfg.EngineKey,
		client: &http.Client{Transport: transport(), CheckRedirect: noRedirects},
		probes: &http.Client{Transport: transport(), CheckRedirect: noRedirects, Timeout: probeTimeout},
	}
}

func (e *engine) close() {
	e.client.CloseIdleConnections()
	e.probes.CloseIdleConnections()
}

func (e *engine) get(ctx context.Context, path string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
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
