package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server is one simulated engine. All methods are safe for concurrent use.
type Server struct {
	cfg     Config
	routes  map[string]*route
	other   atomic.Int64 // hits of unknown paths
	dead    chan struct{}
	startAt int64 // Unix seconds of New, the "created" of the model cards

	faultCount atomic.Int64 // len(faults), read without the lock
	ids        atomic.Uint64

	mu       sync.Mutex
	engine   *engine
	meters   *meters
	record   *record
	adapters map[string]string
	faults   []*Fault // replaced, never changed in place
	faultID  int64
	ran      bool
}

// route is one path of the server.
type route struct {
	methods   string // space separated
	inference bool
	serve     http.HandlerFunc
	hits      atomic.Int64
}

// New builds a simulated engine. Nothing runs until Run; requests that need
// time wait for it, and with no time configured they need none.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure simulated engine: %w", err)
	}
	s := &Server{cfg: cfg, dead: make(chan struct{}), startAt: time.Now().Unix(), adapters: maps.Clone(cfg.Adapters)}
	s.meters = newMeters(cfg.MaxModelLen)
	s.engine = newEngine(&s.cfg, s.meters)
	s.record = newRecord(&s.cfg)
	if s.adapters == nil {
		s.adapters = map[string]string{}
	}
	s.addRoutes()
	return s, nil
}

// Run is the step loop of the engine. It returns nil when ctx ends; requests
// still in the engine are then answered as by a dead engine, and so are all
// later ones. It starts no goroutines and sleeps while nothing is due.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.ran
	s.ran = true
	s.mu.Unlock()
	if again {
		return errors.New("run simulated engine: it ran before")
	}
	defer close(s.dead)
	if log := s.cfg.Logger; log != nil {
		log.Info("simulated engine started", "models", strings.Join(s.cfg.Models, ","), "version", s.cfg.Version)
		defer log.Info("simulated engine stopped")
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		s.mu.Lock()
		next, busy := s.engine.advance(now)
		s.mu.Unlock()
		var due <-chan time.Time
		if busy {
			timer.Reset(next.Sub(now))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.engine.wake:
		case <-due:
		}
	}
}

// Handler serves the engine's HTTP interface on any listener.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["X-Simulated-Engine"] = simulated
	h["Server"] = uvicorn
	if strings.HasPrefix(r.URL.Path, "/sim/") {
		s.serveAdmin(w, r)
		return
	}
	rt := s.routes[r.URL.Path]
	if rt == nil {
		s.other.Add(1)
		s.answer(w, byStatus(http.StatusNotFound))
		return
	}
	rt.hits.Add(1)
	if !rt.allows(r.Method) {
		h.Set("Allow", strings.ReplaceAll(rt.methods, " ", ", "))
		s.answer(w, byStatus(http.StatusMethodNotAllowed))
		return
	}
	if rt.inference {
		rt.serve(w, r)
		return
	}
	if p := s.plan(r, nil, false); p.answer != nil && s.play(w, r, p.answer) {
		return
	}
	if !s.authorized(r) {
		writeUnauthorized(w)
		return
	}
	rt.serve(w, r)
}

var (
	simulated = []string{"tokenbus-sim"}
	uvicorn   = []string{"uvicorn"}
)

func (rt *route) allows(method string) bool {
	for m := range strings.FieldsSeq(rt.methods) {
		if m == method {
			return true
		}
	}
	return false
}

// authorized applies vLLM's rule: only paths below /v1 are protected.
func (s *Server) authorized(r *http.Request) bool {
	return s.cfg.APIKey == "" || !strings.HasPrefix(r.URL.Path, "/v1") ||
		r.Header.Get("Authorization") == "Bearer "+s.cfg.APIKey
}

func writeUnauthorized(w http.ResponseWriter) {
	writeJSON(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
}

// answer writes an error in the OpenAI envelope.
func (s *Server) answer(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.status, []byte(e.body()))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever left meanwhile needs no answer
}

var (
	contentJSON = []string{"application/json"}
	contentSSE  = []string{"text/event-stream; charset=utf-8"}
)

// isDead reports whether Run has ended.
func (s *Server) isDead() bool {
	select {
	case <-s.dead:
		return true
	default:
		return false
	}
}

// Record returns a snapshot of what the engine saw.
func (s *Server) Record() Record { return s.snapshot(int64(s.cfg.KeepEntries)) }

// Counts is Record without its entries, cheap enough to poll.
func (s *Server) Counts() Record { return s.snapshot(0) }

func (s *Server) snapshot(entries int64) Record {
	s.mu.Lock()
	out := s.record.snapshot(entries)
	e := s.engine
	out.Started, out.Running, out.Waiting, out.MaxRunning = e.started, e.running, e.waiting, e.most
	s.mu.Unlock()
	out.Hits = map[string]int64{}
	for path, rt := range s.routes {
		if n := rt.hits.Load(); n > 0 {
			out.Hits[path] = n
		}
	}
	if n := s.other.Load(); n > 0 {
		out.Hits["other"] = n
	}
	return out
}

// ClearRecord forgets entries and counters. Requests in flight stay counted as
// received and in flight.
func (s *Server) ClearRecord() {
	s.mu.Lock()
	s.record.clear()
	s.engine.started, s.engine.most = 0, s.engine.running
	s.mu.Unlock()
	for _, rt := range s.routes {
		rt.hits.Store(0)
	}
	s.other.Store(0)
}
