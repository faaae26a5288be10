package bus

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// mustStay are fields that end at the gateway or at the bus, in canonical form.
var mustStay = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Authenticate",
	"Proxy-Authorization", "Content-Length", "Host", "Expect",
}

var secrets = []string{"Authorization", "X-Api-Key", "Api-Key", "Cookie", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Request-Id"}

func names[M ~map[string][]string](h M) []string { return slices.Sorted(maps.Keys(h)) }

func TestRequestHeaders(t *testing.T) {
	cases := map[string]struct {
		in   http.Header
		want []string
	}{
		"end-to-end":         {http.Header{"Content-Type": {"a"}, "X-Custom": {"b", "c"}, "User-Agent": {"d"}}, []string{"Content-Type", "User-Agent", "X-Custom"}},
		"nothing":            {nil, nil},
		"listed":             {http.Header{"Connection": {"close, X-Hop", "x-other ,"}, "X-Hop": {"1"}, "X-Other": {"2"}, "X-Stays": {"3"}}, []string{"X-Stays"}},
		"upgrade":            {http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Http2-Settings": {"x"}}, []string{"Http2-Settings"}},
		"ours":               {http.Header{"Tb-Window": {"1"}, "Tb-Anything": {"1"}, "Nats-Msg-Id": {"1"}, "X-Tokenbus-Agent": {"1"}}, nil},
		"spelt by a service": {http.Header{"tb-window": {"1"}, "NATS-Msg-Id": {"1"}, "x-tokenbus-agent": {"1"}}, nil},
		"compression":        {http.Header{"Accept-Encoding": {"gzip"}}, nil},
		"almost ours":        {http.Header{"Tbx": {"1"}, "Tb": {"1"}, "Natsy": {"1"}}, []string{"Natsy", "Tb", "Tbx"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dst := make(Header)
			RequestHeaders(dst, c.in)
			if got := names(dst); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			for name := range dst {
				if !slices.Equal(dst[name], c.in[name]) {
					t.Errorf("%s became %q", name, dst[name])
				}
			}
		})
	}
	for _, name := range slices.Concat(mustStay, secrets) {
		dst := make(Header)
		if RequestHeaders(dst, http.Header{name: {"v"}}); len(dst) > 0 {
			t.Errorf("%s passes", name)
		}
	}
}

func TestEngineRequestHeaders(t *testing.T) {
	cases := map[string]struct {
		in   Header
		want []string
	}{
		"end-to-end":     {Header{"content-type": {"a"}, "X-Custom": {"b"}}, []string{"Content-Type", "X-Custom"}},
		"ours":           {Header{"tb-splice": {"1"}, "TB-WINDOW": {"1"}, "nats-trace-dest": {"1"}, "Nats-Msg-Id": {"1"}}, nil},
		"spelt in lower": {Header{"connection": {"close"}, "authorization": {"x"}, "content-length": {"5"}, "host": {"h"}, "te": {"x"}}, nil},
		// design.md §4: a header travels "if it is end-to-end", and what Connection
		// names is not.
		"listed": {Header{"Connection": {"x-hop"}, "X-Hop": {"1"}, "X-Stays": {"2"}}, []string{"X-Stays"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dst := make(http.Header)
			EngineRequestHeaders(dst, c.in)
			if got := names(dst); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	for _, name := range slices.Concat(mustStay, secrets) {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			dst := make(http.Header)
			if EngineRequestHeaders(dst, Header{spelt: {"v"}}); len(dst) > 0 {
				t.Errorf("%s passes to the engine", spelt)
			}
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	cases := map[string]struct {
		in   http.Header
		want []string
	}{
		"end-to-end": {http.Header{"Content-Type": {"a"}, "Retry-After": {"3"}, "Set-Cookie": {"a", "b"}}, []string{"Content-Type", "Retry-After", "Set-Cookie"}},
		"ours":       {http.Header{"Tb-Status": {"200"}, "Nats-Service-Error": {"x"}, "Date": {"x"}, "Server": {"uvicorn"}, "X-Request-Id": {"engine's"}}, nil},
		"listed":     {http.Header{"Connection": {"keep-alive, x-hop"}, "Keep-Alive": {"timeout=5"}, "X-Hop": {"1"}}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dst := make(Header)
			ResponseHeaders(dst, c.in)
			if got := names(dst); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	for _, name := range mustStay {
		dst := make(Header)
		if ResponseHeaders(dst, http.Header{name: {"v"}}); len(dst) > 0 {
			t.Errorf("%s passes", name)
		}
	}
}

// FuzzHeaders: whatever a client or an engine sends, nothing internal, hop-by-hop,
// or listed in Connection passes, and no credential reaches the engine.
func FuzzHeaders(f *testing.F) {
	f.Add("content-type", "a", "close, X-Hop", "x-hop")
	f.Add("TB-Window", "1", "", "NATS-Trace-Dest")
	f.Add("authorization", "Bearer", "keep-alive", "Keep-Alive")
	f.Add("Connection", "X", "x , ,y", " y")
	f.Add("", "", ",", "Tb-")
	f.Fuzz(func(t *testing.T, name, value, connection, second string) {
		src := make(http.Header)
		for _, n := range []string{name, second} {
			src[http.CanonicalHeaderKey(n)] = []string{value} // as net/http's servers and clients do
		}
		if connection != "" {
			src["Connection"] = []string{connection}
		}
		listed := make(map[string]bool)
		for v := range strings.SplitSeq(src.Get("Connection"), ",") {
			listed[http.CanonicalHeaderKey(strings.TrimSpace(v))] = true
		}
		check := func(where, name string, secret bool) {
			t.Helper()
			c := http.CanonicalHeaderKey(name)
			if Internal(c) || slices.Contains(mustStay, c) || secret && slices.Contains(secrets, c) || listed[c] && c != "Close" && c != "" {
				t.Errorf("%s: %q passes", where, name)
			}
		}
		request, response, engine := make(Header), make(Header), make(http.Header)
		RequestHeaders(request, src)
		ResponseHeaders(response, src)
		EngineRequestHeaders(engine, request)
		for n := range request {
			check("request", n, true)
		}
		for n := range response {
			check("response", n, false)
		}
		for n := range engine {
			check("engine", n, true)
		}
		// A bare caller spells as it likes.
		bare := make(http.Header)
		EngineRequestHeaders(bare, Header{name: {value}, second: {value}})
		listed = nil
		for n := range bare {
			check("bare", n, true)
		}
	})
}

func TestInternal(t *testing.T) {
	for name, want := range map[string]bool{
		"Tb-Window": true, "tb-window": true, "TB-": true, "Nats-Msg-Id": true, "NATS-x": true,
		"Tb": false, "": false, "Content-Type": false, "X-Tb-Window": false,
	} {
		if Internal(name) != want {
			t.Errorf("Internal(%q) is %v", name, !want)
		}
	}
}

func TestBudget(t *testing.T) {
	cases := map[string]struct {
		text string
		want time.Duration
		ok   bool
	}{
		"usual": {"1500", 1500 * time.Millisecond, true}, "none": {"", 0, false}, "negative": {"-1", 0, false},
		"words": {"soon", 0, false}, "past": {"0", 0, true}, "overflows": {"9223372036854775807", 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := Budget(Header{HeaderBudget: {c.text}}); got != c.want || ok != c.ok {
				t.Errorf("got %v, %v", got, ok)
			}
		})
	}
	for left, want := range map[time.Duration]time.Duration{
		time.Nanosecond: time.Millisecond, -time.Second: 0, 1500 * time.Microsecond: 2 * time.Millisecond, time.Hour: time.Hour,
	} {
		h := make(Header)
		SetBudget(h, left)
		if got, ok := Budget(h); !ok || got != want {
			t.Errorf("%v became %v", left, got)
		}
	}
}
