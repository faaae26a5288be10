package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/tokenbus/tokenbus/bus"
)

// operatorDemo gives the operator side of a deployment that serves.
func operatorDemo(t *testing.T) (http.Handler, *bus.Link) {
	t.Helper()
	adm, gw := startUp(t)
	ask(t, gw)
	mux := http.NewServeMux()
	adm.operator.handle(mux)
	return mux, adm.operator.link
}

// TestOpenAPI: the document is valid, names every route and no other, and every answer
// is as it says.
func TestOpenAPI(t *testing.T) {
	side, _ := operatorDemo(t)
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(map[string]bool)
	cases := []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/admin/health", "", 200}, {"GET", "/admin/overview", "", 200}, {"GET", "/admin/agents", "", 200},
		{"GET", "/admin/agents/demo-1", "", 200}, {"GET", "/admin/agents/nobody", "", 404}, {"GET", "/admin/models", "", 200},
		{"GET", "/admin/models/demo%2Fsmall", "", 200}, {"GET", "/admin/models/none", "", 404},
		{"GET", "/admin/routing-table", "", 200}, {"GET", "/admin/jobs", "", 200}, {"GET", "/admin/jobs?agent=nobody", "", 404},
		{"GET", "/admin/events?after=x", "", 400}, {"GET", "/admin/events?since=x", "", 400}, {"GET", "/admin/openapi.yaml", "", 200},
		{"POST", "/admin/adapters/load", `{"adapter":"l","path":"/x","model":"demo/small","reason":"test"}`, 200}, {"GET", "/admin/adapters", "", 200},
		{"POST", "/admin/adapters/load", `{"adapter":"l","model":"demo/small"}`, 400}, {"POST", "/admin/adapters/load", `{"adapter":"l","path":"/x"}`, 400},
		{"POST", "/admin/adapters/load", `{"adapter":"l","path":"/x","model":"none"}`, 404}, {"POST", "/admin/adapters/load", `{"name":"l"}`, 400},
		{"POST", "/admin/adapters/unload", `{"adapter":"l"}`, 200}, {"POST", "/admin/adapters/unload", `{"adapter":"l"}`, 404},
		{"POST", "/admin/drain/demo-1", `{"reason":"test","timeout_ms":1000}`, 200}, {"POST", "/admin/drain/demo-1", `{"timeout_ms":"x"}`, 400},
		{"POST", "/admin/drain/nobody", "", 404}, {"POST", "/admin/cordon/demo-1", "", 200}, {"POST", "/admin/resume/demo-1", "", 200},
		{"POST", "/admin/capacity/demo-1", `{"capacity":7}`, 200}, {"POST", "/admin/capacity/demo-1", `{"capacity":-7}`, 400},
	}
	for _, c := range cases {
		r := httptest.NewRequest(c.method, "http://127.0.0.1:9090"+c.path, strings.NewReader(c.body))
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		side.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s %s: status %d, want %d: %s", c.method, c.path, w.Code, c.status, w.Body)
			continue
		}
		route, params, err := router.FindRoute(r)
		if err != nil {
			t.Errorf("%s %s is not in the document: %v", c.method, c.path, err)
			continue
		}
		asked[c.method+" "+route.Path] = true
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			continue
		}
		in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
		err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: in, Status: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		})
		if err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !asked[method+" "+path] {
				t.Errorf("%s %s is in the document and was not tried", method, path)
			}
		}
	}
}

// TestOperatorForeign: no other site reaches the operator side through a browser.
func TestOperatorForeign(t *testing.T) {
	side, _ := operatorDemo(t)
	cases := map[string]func(*http.Request){
		"a name that points at loopback": func(r *http.Request) { r.Host = "evil.example:9090" },
		"a form of another site":         func(r *http.Request) { r.Method = "POST"; r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"another origin":                 func(r *http.Request) { r.Method = "POST"; r.Header.Set("Origin", "http://evil.example") },
	}
	for name, change := range cases {
		r := httptest.NewRequest("GET", "http://127.0.0.1:9090/admin/drain/demo-1", nil)
		change(r)
		w := httptest.NewRecorder()
		if side.ServeHTTP(w, r); w.Code != http.StatusForbidden {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	r := httptest.NewRequest("DELETE", "http://127.0.0.1:9090/admin/nothing", nil)
	w := httptest.NewRecorder()
	if side.ServeHTTP(w, r); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "openapi.yaml") {
		t.Errorf("a route that is none: %d %s", w.Code, w.Body)
	}
	r = httptest.NewRequest("POST", "http://127.0.0.1:9090/admin/drain/demo-1", strings.NewReader(strings.Repeat(" ", 10_000)))
	w = httptest.NewRecorder()
	if side.ServeHTTP(w, r); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d", w.Code)
	}
}

// TestEventsResume: a client that comes back with the last id gets what it missed, once.
func TestEventsResume(t *testing.T) {
	side, link := operatorDemo(t)
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		info, err := link.ServerInfo(ctx)
		cancel()
		if err == nil && info.Events {
			break
		}
		if time.Now().After(until) {
			t.Fatal("events are not kept")
		}
	}
	srv := httptest.NewServer(side)
	defer srv.Close()
	read := func(n int, last string, query string) (ids, data []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", srv.URL+"/admin/events"+query, nil)
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); len(data) < n && s.Scan(); {
			if id, ok := strings.CutPrefix(s.Text(), "id: "); ok {
				ids = append(ids, id)
			}
			if d, ok := strings.CutPrefix(s.Text(), "data: "); ok && strings.Contains(d, "number-") {
				data = append(data, regexp.MustCompile(`number-\d`).FindString(d))
			}
		}
		return ids, data
	}
	for _, name := range []string{"number-1", "number-2", "number-3", "number-4"} {
		link.PublishJSON(bus.EventSubject("test", "m"), map[string]string{"what": name})
	}
	ids, first := read(2, "", "?since=1h")
	_, rest := read(2, ids[len(ids)-1], "")
	if all := slices.Concat(first, rest); !slices.Equal(all, []string{"number-1", "number-2", "number-3", "number-4"}) {
		t.Errorf("got %v", all)
	}
}
