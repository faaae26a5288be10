package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/overview"
)

//go:embed openapi.yaml
var openAPI []byte

// operatorSide serves /admin: what the commands for operators show and do, over HTTP.
type operatorSide struct {
	link *bus.Link

	mu    sync.Mutex
	fleet *bus.Fleet // watched since the first question
}

// Bounds of the operator side.
const (
	maxOrderBody   = 4 << 10
	orderWait      = 5 * time.Second
	adapterWait    = 3 * time.Minute
	eventKeepAlive = 15 * time.Second
)

// handle adds the routes. Requests that a browser makes for another site are refused:
// the operator side listens on loopback, which every page can reach.
func (s *operatorSide) handle(mux *http.ServeMux) {
	own := http.NewServeMux()
	own.HandleFunc("GET /admin/health", s.health)
	own.HandleFunc("GET /admin/overview", s.show(func(_ *http.Request, o overview.Overview) (any, error) { return o, nil }))
	own.HandleFunc("GET /admin/agents", s.show(func(_ *http.Request, o overview.Overview) (any, error) {
		return map[string]any{"agents": o.Agents}, nil
	}))
	own.HandleFunc("GET /admin/agents/{id}", s.show(func(r *http.Request, o overview.Overview) (any, error) { return o.Agent(r.PathValue("id")) }))
	own.HandleFunc("GET /admin/models", s.show(func(_ *http.Request, o overview.Overview) (any, error) {
		return map[string]any{"models": o.Models}, nil
	}))
	own.HandleFunc("GET /admin/models/{id...}", s.show(func(r *http.Request, o overview.Overview) (any, error) { return o.Model(r.PathValue("id")) }))
	own.HandleFunc("GET /admin/routing-table", s.show(func(_ *http.Request, o overview.Overview) (any, error) { return o.RoutingTable(), nil }))
	own.HandleFunc("GET /admin/jobs", s.jobs)
	own.HandleFunc("GET /admin/events", s.events)
	for _, verb := range []string{"drain", "cordon", "resume", "capacity"} {
		own.HandleFunc("POST /admin/"+verb+"/{id}", s.order(verb))
	}
	own.HandleFunc("GET /admin/adapters", s.show(func(_ *http.Request, o overview.Overview) (any, error) {
		return map[string]any{"adapters": o.Adapters()}, nil
	}))
	own.HandleFunc("POST /admin/adapters/load", s.adapter(overview.AdapterOrder.Load))
	own.HandleFunc("POST /admin/adapters/unload", s.adapter(overview.AdapterOrder.Unload))
	own.HandleFunc("GET /admin/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	own.HandleFunc("/admin/", func(w http.ResponseWriter, r *http.Request) {
		answerError(w, http.StatusNotFound, fmt.Sprintf("%s %s is not a route of the operator side; /admin/openapi.yaml lists them", r.Method, r.URL.Path))
	})
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answerError(w, http.StatusForbidden, "the request comes from another site")
	}))
	mux.Handle("/admin/", localHost(guard.Handler(own)))
}

// localHost refuses requests for a name that some site has pointed at loopback.
func localHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if !bus.Loopback(host) {
			answerError(w, http.StatusForbidden, fmt.Sprintf("the operator side is not called %q; use 127.0.0.1 or localhost", host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func answerJSON(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(doc) // the client has gone
}

func answerError(w http.ResponseWriter, status int, message string) {
	answerJSON(w, status, map[string]any{"error": map[string]any{"message": message, "code": status}})
}

// look gives an overview; the fleet is watched from the first one on.
func (s *operatorSide) look(ctx context.Context) (overview.Overview, error) {
	s.mu.Lock()
	if s.fleet == nil {
		fleet, err := overview.Watch(ctx, s.link)
		if err != nil {
			s.mu.Unlock()
			return overview.Overview{}, err
		}
		s.fleet = fleet
	}
	fleet := s.fleet
	s.mu.Unlock()
	return overview.LookWith(ctx, s.link, fleet)
}

func (s *operatorSide) show(f func(*http.Request, overview.Overview) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		o, err := s.look(r.Context())
		if err != nil {
			answerError(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		doc, err := f(r, o)
		if err != nil {
			answerError(w, http.StatusNotFound, err.Error())
			return
		}
		answerJSON(w, http.StatusOK, doc)
	}
}

// health tells in one word how the deployment is. The status is always 200: it is the
// deployment's health, not this process's.
func (s *operatorSide) health(w http.ResponseWriter, r *http.Request) {
	o, err := s.look(r.Context())
	if err != nil {
		answerJSON(w, http.StatusOK, map[string]any{"status": "unreachable", "error": err.Error()})
		return
	}
	answerJSON(w, http.StatusOK, o.Health())
}

func (s *operatorSide) jobs(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), orderWait)
	defer cancel()
	jobs, err := overview.Jobs(ctx, s.link, r.URL.Query().Get("agent"))
	switch {
	case errors.Is(err, bus.ErrNoAgent):
		answerError(w, http.StatusNotFound, err.Error())
	case err != nil:
		answerError(w, http.StatusServiceUnavailable, err.Error())
	default:
		answerJSON(w, http.StatusOK, jobs)
	}
}

// order passes a command to an agent. The body is its argument.
func (s *operatorSide) order(verb string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrderBody))
		if err != nil {
			answerError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", maxOrderBody))
			return
		}
		if len(body) > 0 && !json.Valid(body) {
			answerError(w, http.StatusBadRequest, "the body is not JSON")
			return
		}
		var arg any
		if len(body) > 0 {
			arg = json.RawMessage(body)
		}
		ctx, cancel := context.WithTimeout(r.Context(), orderWait)
		defer cancel()
		var said bus.OrderAnswer
		var wrong *bus.Error
		switch err := s.link.Command(ctx, r.PathValue("id"), verb, arg, &said); {
		case errors.Is(err, bus.ErrNoAgent):
			answerError(w, http.StatusNotFound, err.Error())
		case errors.As(err, &wrong):
			answerError(w, wrong.Status(), wrong.Message)
		case err != nil:
			answerError(w, http.StatusServiceUnavailable, err.Error())
		default:
			answerJSON(w, http.StatusOK, said)
		}
	}
}

type adapterVerb = func(overview.AdapterOrder, context.Context, *bus.Link, overview.Overview) (overview.AdapterResults, error)

// adapter loads or unloads an adapter; the body says which, and where.
func (s *operatorSide) adapter(do adapterVerb) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var order overview.AdapterOrder
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrderBody))
		d.DisallowUnknownFields()
		if err := d.Decode(&order); err != nil {
			answerError(w, http.StatusBadRequest, fmt.Sprintf("the body: %v", err))
			return
		}
		o, err := s.look(r.Context())
		if err != nil {
			answerError(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), adapterWait)
		defer cancel()
		said, err := do(order, ctx, s.link, o)
		var wrong *bus.Error
		switch {
		case errors.Is(err, bus.ErrNoAgent):
			answerError(w, http.StatusNotFound, err.Error())
		case errors.As(err, &wrong):
			answerError(w, wrong.Status(), wrong.Message)
		case err != nil:
			answerError(w, http.StatusServiceUnavailable, err.Error())
		default:
			answerJSON(w, http.StatusOK, said)
		}
	}
}

// events streams events as SSE. An id is the event's revision; a client that comes back
// with Last-Event-ID, or ?after=, misses none that is kept.
func (s *operatorSide) events(w http.ResponseWriter, r *http.Request) {
	after := uint64(0)
	if v := r.Header.Get("Last-Event-ID"); v != "" || r.URL.Query().Has("after") {
		if v == "" {
			v = r.URL.Query().Get("after")
		}
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			answerError(w, http.StatusBadRequest, fmt.Sprintf("Last-Event-ID or after: %q is not a revision", v))
			return
		}
		after = n
	}
	var since time.Time
	if v := r.URL.Query().Get("since"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			answerError(w, http.StatusBadRequest, fmt.Sprintf("since: %q is not a duration, such as 1h", v))
			return
		}
		since = time.Now().Add(-d)
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events := make(chan bus.Event)
	ended := make(chan error, 1)
	go func() {
		ended <- s.link.WatchEvents(ctx, after, since, func(e bus.Event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	_ = out.Flush()
	quiet := time.NewTicker(eventKeepAlive)
	defer quiet.Stop()
	for {
		var err error
		select {
		case err = <-ended:
			if err == nil {
				return
			}
		case <-quiet.C:
			_, err = io.WriteString(w, ": still here\n\n")
		case e := <-events:
			err = writeEvent(w, e)
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return
		}
	}
}

func writeEvent(w io.Writer, e bus.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Revision > 0 {
		if _, err := fmt.Fprintf(w, "id: %d\n", e.Revision); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Kind, data)
	return err
}

func (s *operatorSide) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fleet != nil {
		s.fleet.Close()
	}
}
