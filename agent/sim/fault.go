package sim

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Kinds of fault. Those marked T count decode steps; a reply that ends before
// is not touched. Without a stream they act at the same moment, before
// anything was answered.
const (
	FailStatus        = "fail_status"              // answer Status, Headers, Body
	HangBeforeHeaders = "hang_before_headers"      // answer nothing; with delay_ms go on after it
	DelayFirstToken   = "delay_first_token"        // prefill takes delay_ms longer
	StallAfter        = "stall_after_tokens"       // T: produce no more, keep the slot
	ResetAfter        = "reset_after_tokens"       // T: reset the connection
	CloseAfter        = "close_clean_after_tokens" // T: end the stream properly but unfinished
	ErrorAfter        = "error_event_after_tokens" // T: send the dialect's error event, then end
	Refuse            = "refuse"                   // close the connection without a byte
	Sick              = "sick"                     // /health answers 503
	Slow              = "slow"                     // prefill takes factor times as long, a token that many steps, rounded up
	Script            = "script"                   // answer exactly these bytes
)

// Fault is an installed misbehaviour. It applies to every request that passes
// all its filters, until Count of them did. Without Path only inference
// requests are meant; with it any route can be hit, except those below /sim/.
//
// Installed faults are tried in order. Effects on one request add up, up to
// the first fault that answers the request itself.
type Fault struct {
	ID   int64  `json:"id,omitempty"` // given when installed
	Kind string `json:"kind"`

	Path     string `json:"path,omitempty"`     // exact path
	Match    string `json:"match,omitempty"`    // value of the header X-Sim-Fault-Match
	Name     string `json:"name,omitempty"`     // value of the header X-Sim-Script
	Contains string `json:"contains,omitempty"` // part of the body
	Count    int    `json:"count,omitempty"`    // requests left; 0 is all

	Status  int               `json:"status,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"`

	DelayMS int64   `json:"delay_ms,omitempty"`
	Tokens  int     `json:"tokens,omitempty"`
	Factor  float64 `json:"factor,omitempty"`
	Message string  `json:"message,omitempty"` // of the error event
	Done    bool    `json:"done,omitempty"`    // error event is followed by [DONE], as vLLM does

	Pieces []Piece `json:"pieces,omitempty"`
	// Raw scripts write their pieces to the connection itself, status line and
	// all.
	Raw bool `json:"raw,omitempty"`
	// End is what a script does after its pieces: "" ends the response
	// properly, "reset" resets the connection, "hang" waits for the client to
	// leave.
	End string `json:"end,omitempty"`
}

// Piece is one write of a script, flushed on its own. Exactly one of Text and
// Base64 carries the bytes.
type Piece struct {
	DelayMS int64  `json:"delay_ms,omitempty"` // before the write
	Text    string `json:"text,omitempty"`
	Base64  []byte `json:"base64,omitempty"`
	Repeat  int    `json:"repeat,omitempty"` // the bytes this many times in one write
}

func (p Piece) bytes() []byte {
	b := p.Base64
	if p.Text != "" {
		b = []byte(p.Text)
	}
	return bytes.Repeat(b, max(p.Repeat, 1))
}

// Validate reports every problem of the fault at once, each naming the field.
func (f Fault) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch f.Kind {
	case FailStatus:
		if f.Status < 200 || f.Status > 999 {
			bad("status: %d is no HTTP status", f.Status)
		}
	case DelayFirstToken:
		if f.DelayMS <= 0 {
			bad("delay_ms: must be positive")
		}
	case Slow:
		if f.Factor < 1 {
			bad("factor: %v is below 1", f.Factor)
		}
	case Script:
		if !f.Raw && f.Status != 0 && (f.Status < 200 || f.Status > 999) {
			bad("status: %d is no HTTP status", f.Status)
		}
		if !slices.Contains([]string{"", "reset", "hang"}, f.End) {
			bad("end: %q is none of \"\", reset, hang", f.End)
		}
		for i, p := range f.Pieces {
			if p.Text != "" && len(p.Base64) > 0 {
				bad("pieces[%d]: has both text and base64", i)
			}
			if p.DelayMS < 0 || p.Repeat < 0 {
				bad("pieces[%d]: delay_ms and repeat must not be negative", i)
			}
		}
	case HangBeforeHeaders, StallAfter, ResetAfter, CloseAfter, ErrorAfter, Refuse, Sick:
	default:
		bad("kind: %q is not known", f.Kind)
	}
	if f.Tokens < 0 || f.Count < 0 || f.DelayMS < 0 {
		bad("tokens, count, delay_ms: must not be negative")
	}
	return errors.Join(errs...)
}

// matches reports whether the fault is meant for a request. Inference routes
// are those a fault without a path means.
func (f *Fault) matches(r *http.Request, body []byte, inference bool) bool {
	return (f.Path == r.URL.Path || f.Path == "" && inference) &&
		(f.Match == "" || f.Match == r.Header.Get("X-Sim-Fault-Match")) &&
		(f.Name == "" || f.Name == r.Header.Get("X-Sim-Script")) &&
		(f.Contains == "" || bytes.Contains(body, []byte(f.Contains)))
}

// plan is what the faults do to one request.
type plan struct {
	answer *Fault // answers instead of the engine
	delay  time.Duration
	slow   float64
	stop   *Fault // acts after stop.Tokens steps
}

// plan collects the faults for a request and counts them down.
func (s *Server) plan(r *http.Request, body []byte, inference bool) (p plan) {
	if s.faultCount.Load() == 0 {
		return p
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range slices.Clone(s.faults) {
		if f.Kind == Sick || !f.matches(r, body, inference) {
			continue
		}
		switch f.Kind {
		case FailStatus, HangBeforeHeaders, Refuse, Script:
			p.answer = f
		case DelayFirstToken:
			p.delay += f.delay()
		case Slow:
			p.slow = max(1, p.slow) * f.Factor
		default:
			if p.stop != nil && p.stop.Tokens <= f.Tokens {
				continue
			}
			p.stop = f
		}
		s.spend(f)
		if p.answer != nil {
			break
		}
	}
	return p
}

// spend takes one request off the count of f. Faults are shared with running
// requests, so the installed one is replaced. The caller holds mu.
func (s *Server) spend(f *Fault) {
	if f.Count == 0 {
		return
	}
	i := slices.Index(s.faults, f)
	if f.Count == 1 {
		s.faults = slices.Delete(slices.Clone(s.faults), i, i+1)
		s.faultCount.Store(int64(len(s.faults)))
		return
	}
	left := *f
	left.Count--
	s.faults = slices.Clone(s.faults)
	s.faults[i] = &left
}

func (f *Fault) delay() time.Duration { return time.Duration(f.DelayMS) * time.Millisecond }

// Inject installs a fault and returns its id.
func (s *Server) Inject(f Fault) (id int64, err error) {
	if err := f.Validate(); err != nil {
		return 0, fmt.Errorf("install fault %s: %w", strings.TrimSpace(f.Kind), err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultID++
	f.ID = s.faultID
	s.faults = append(slices.Clone(s.faults), &f)
	s.faultCount.Store(int64(len(s.faults)))
	return f.ID, nil
}

// Faults lists the installed faults in order.
func (s *Server) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Fault, len(s.faults))
	for i, f := range s.faults {
		out[i] = *f
	}
	return out
}

// Heal removes the fault with the id; id 0 removes all. Requests a fault
// already acts on stay as they are.
func (s *Server) Heal(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(slices.Clone(s.faults), func(f *Fault) bool { return id == 0 || f.ID == id })
	s.faultCount.Store(int64(len(s.faults)))
}

// sick reports whether a sick fault is installed, and counts it down.
func (s *Server) sick(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if f.Kind == Sick && f.matches(r, nil, true) {
			s.spend(f)
			return true
		}
	}
	return false
}
