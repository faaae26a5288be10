package integration

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// check stops the test on an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pause is the time between two looks at something that is waited for.
func pause() { <-time.After(2 * time.Millisecond) }

// eventually waits until ok holds.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(limit); !ok(); pause() {
		if time.Now().After(until) {
			t.Fatalf("waited %v in vain until %s", limit, what)
		}
	}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // reading the body
}

// do sends a request; header are name, value pairs.
func (s *system) do(method, path string, body io.Reader, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, body)
	check(s.t, err)
	return s.send(s.http, req, header...)
}

func (s *system) send(client *http.Client, req *http.Request, header ...string) answer {
	s.t.Helper()
	if req.Method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		s.t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	a.body, a.err = io.ReadAll(resp.Body)
	return a
}

func (s *system) post(path, body string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, path, strings.NewReader(body), header...)
}

func (s *system) get(path string) answer {
	s.t.Helper()
	return s.do(http.MethodGet, path, nil)
}

// inject installs a fault at the engine.
func (s *system) inject(f sim.Fault) {
	s.t.Helper()
	_, err := s.sim.Inject(f)
	check(s.t, err)
}

// script makes the engine answer a request that names it in X-Sim-Script with
// exactly these writes.
func (s *system) script(name, contentType string, pieces ...string) {
	s.t.Helper()
	s.inject(scripted(name, contentType, pieces...))
}

func scripted(name, contentType string, pieces ...string) sim.Fault {
	f := sim.Fault{Kind: sim.Script, Name: name, Status: http.StatusOK, Headers: map[string]string{"Content-Type": contentType}}
	for _, p := range pieces {
		f.Pieces = append(f.Pieces, sim.Piece{Text: p})
	}
	return f
}

const (
	eventStream = "text/event-stream; charset=utf-8"
	jsonType    = "application/json"
)

// last is the newest request that the engine saw.
func (s *system) last() sim.Entry {
	s.t.Helper()
	list := s.sim.Record().Requests
	if len(list) == 0 {
		s.t.Fatal("the engine saw no request")
	}
	return list[len(list)-1]
}

// named is the request at the engine whose X-Sim-Script is name.
func (s *system) named(name string) (sim.Entry, bool) {
	for _, e := range s.sim.Record().Requests {
		if e.Header.Get("X-Sim-Script") == name {
			return e, true
		}
	}
	return sim.Entry{}, false
}

// chat is a small chat request.
func chat(stream bool, more string) string {
	b := `{"model":"` + model + `","messages":[{"role":"user","content":"hello"}]`
	if stream {
		b += `,"stream":true`
	}
	return b + more + `}`
}

const askUsage = `,"stream_options":{"include_usage":true}`

// sameBytes compares long texts and shows only where they part.
func sameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-40)
	t.Errorf("invariant 7: %s: got %d bytes, want %d; they part at %d: got %q, want %q", what, len(got), len(want), i,
		got[from:min(len(got), i+80)], want[from:min(len(want), i+80)])
}

// errorBody is OpenAI's error object, or Anthropic's.
type errorBody struct {
	Kind  string `json:"type"`
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    any     `json:"code"`
	} `json:"error"`
}

// isError checks that an answer is an error in OpenAI's shape and gives it.
func isError(t testing.TB, a answer, status int) errorBody {
	t.Helper()
	var e errorBody
	if a.status != status {
		t.Errorf("status %d, want %d: %.300s", a.status, status, a.body)
		return e
	}
	if err := json.Unmarshal(a.body, &e); err != nil || e.Error.Message == "" || e.Error.Type == "" || a.header.Get("Content-Type") != jsonType {
		t.Errorf("status %d without an error object: %v, %q: %.300q", a.status, err, a.header.Get("Content-Type"), a.body)
	}
	return e
}

func (e errorBody) param() string {
	if e.Error.Param == nil {
		return ""
	}
	return *e.Error.Param
}
