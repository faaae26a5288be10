package bus

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/bus/peek"
)

// header gives the headers that a request is published with.
func header(t *testing.T, req Request) Header {
	t.Helper()
	facts, err := check(&req)
	if err != nil {
		t.Fatal(err)
	}
	return requestHeader(&req, &facts)
}

func TestSessionKey(t *testing.T) {
	hash := func(tenant, key string) string { return fmt.Sprintf("%016x", peek.Seed(tenant, key)) }
	body := `{"model":"m","prompt_cache_key":"cache","user":"user"}`
	ours, common := http.Header{"X-Tokenbus-Session": {"ours"}}, http.Header{"X-Session-Id": {"common"}}
	both := http.Header{"X-Tokenbus-Session": {"ours"}, "X-Session-Id": {"common"}}
	cases := map[string]struct {
		req  Request
		want string
	}{
		"request":        {Request{Session: "go", Header: both, Body: []byte(body)}, hash("", "go")},
		"our field":      {Request{Header: both, Body: []byte(body)}, hash("", "ours")},
		"our field only": {Request{Header: ours, Body: []byte(body)}, hash("", "ours")},
		"common field":   {Request{Header: common, Body: []byte(body)}, hash("", "common")},
		"blank field":    {Request{Header: http.Header{"X-Session-Id": {" "}}, Body: []byte(body)}, hash("", "cache")},
		"long field":     {Request{Header: http.Header{"X-Session-Id": {strings.Repeat("é", 5000)}}, Body: []byte(body)}, hash("", strings.Repeat("é", 5000))},
		"cache key":      {Request{Body: []byte(body)}, hash("", "cache")},
		"user":           {Request{Body: []byte(`{"model":"m","user":"user"}`)}, hash("", "user")},
		"tenant":         {Request{Tenant: "t", Body: []byte(body)}, hash("t", "cache")},
		"none":           {Request{Body: []byte(`{"model":"m"}`)}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.req.API = Chat
			h := header(t, c.req)
			if got := FirstHeader(h, HeaderSession); got != c.want {
				t.Errorf("the session is %q, want %q", got, c.want)
			}
			if n, ok := Session(h); ok != (c.want != "") || ok && fmt.Sprintf("%016x", n) != c.want {
				t.Errorf("it reads as %x, %v", n, ok)
			}
		})
	}
}

func TestPriority(t *testing.T) {
	field := func(v string) http.Header { return http.Header{"X-Tokenbus-Priority": {v}} }
	cases := map[string]struct {
		req   Request
		want  int
		param string // of the error
	}{
		"none":         {Request{}, 0, ""},
		"request":      {Request{Priority: 7, Header: field("5")}, 7, ""},
		"field":        {Request{Header: field(" 5 ")}, 5, ""},
		"zero":         {Request{Header: field("0")}, 0, ""},
		"least":        {Request{Header: field("-1")}, -1, ""},
		"most":         {Request{Header: field("100")}, 100, ""},
		"blank":        {Request{Header: field(" ")}, 0, ""},
		"too low":      {Request{Header: field("-2")}, 0, "X-Tokenbus-Priority"},
		"too high":     {Request{Header: field("101")}, 0, "X-Tokenbus-Priority"},
		"huge":         {Request{Header: field("99999999999999999999")}, 0, "X-Tokenbus-Priority"},
		"word":         {Request{Header: field("high")}, 0, "X-Tokenbus-Priority"},
		"fraction":     {Request{Header: field("1.5")}, 0, "X-Tokenbus-Priority"},
		"request low":  {Request{Priority: -2}, 0, "priority"},
		"request high": {Request{Priority: 101, Header: field("5")}, 0, "priority"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.req.API, c.req.Body = Chat, []byte(`{"model":"m","priority":55}`)
			if c.param != "" {
				if _, err := check(&c.req); err == nil || err.Reason != ReasonBadRequest || err.Param != c.param {
					t.Errorf("got %v, want an error about %s", err, c.param)
				}
				return
			}
			h := header(t, c.req)
			if got := Priority(h); got != c.want {
				t.Errorf("the band is %d, want %d", got, c.want)
			}
			if _, ok := h[HeaderPriority]; ok != (c.want != 0) {
				t.Errorf("the header is %q", h[HeaderPriority])
			}
		})
	}
	for _, v := range []string{"", "x", "-2", "101", "1 2"} {
		if n := Priority(Header{HeaderPriority: {v}}); n != 0 {
			t.Errorf("%q reads as band %d", v, n)
		}
	}
}

func TestPromptHeaders(t *testing.T) {
	text := strings.Repeat("word ", 200)
	blocks := func(body, model string) string {
		facts, err := peek.JSON([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return facts.Prefix([]byte(body), peek.Seed(model), nil).String()
	}
	chat := `{"model":"m","messages":["` + text + `"],"max_tokens":50,"n":2}`
	cases := map[string]struct {
		api          API
		tenant, body string
		tokens       string
		prefix       string
	}{
		"chat":        {Chat, "", chat, "314 100", blocks(chat, "m")},
		"tenant":      {Chat, "t", chat, "314 100", blocks(chat, "m")},
		"short":       {Completions, "", `{"model":"m","prompt":"x"}`, "1 256", ""},
		"messages":    {Messages, "", chat, "314 100", blocks(chat, "m")},
		"responses":   {Responses, "", chat, "314 100", blocks(chat, "m")},
		"embeddings":  {Embeddings, "", chat, "314 0", blocks(chat, "m")},
		"rerank":      {Rerank, "", chat, "314 0", blocks(chat, "m")},
		"score":       {Score, "", chat, "314 0", blocks(chat, "m")},
		"pooling":     {Pooling, "", chat, "314 0", blocks(chat, "m")},
		"classify":    {Classify, "", chat, "314 0", blocks(chat, "m")},
		"tokenize":    {Tokenize, "", chat, "", ""},
		"detokenize":  {Detokenize, "", chat, "", ""},
		"count":       {CountTokens, "", chat, "", ""},
		"other model": {Chat, "", strings.Replace(chat, `"m"`, `"m2"`, 1), "314 100", blocks(chat, "m2")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := header(t, Request{API: c.api, Tenant: c.tenant, Body: []byte(c.body)})
			if got := FirstHeader(h, HeaderTokens); got != c.tokens {
				t.Errorf("tokens are %q, want %q", got, c.tokens)
			}
			if got := FirstHeader(h, HeaderPrefix); got != c.prefix {
				t.Errorf("the prefix is %.60q, want %.60q", got, c.prefix)
			}
			for _, name := range []string{HeaderTokens, HeaderPrefix} {
				if v, ok := h[name]; ok && (len(v) != 1 || v[0] == "") {
					t.Errorf("%s is %q", name, v)
				}
			}
			if got := FirstHeader(h, HeaderTenant); got != c.tenant {
				t.Errorf("the tenant is %q", got)
			}
		})
	}
	if h := header(t, Request{API: Chat, Tenant: "a\r\nTb-Body: x", Body: []byte(chat)}); strings.ContainsAny(FirstHeader(h, HeaderTenant), "\r\n") {
		t.Errorf("the tenant is %q", h[HeaderTenant])
	}
}

// TestDescribeBareCaller: what a bare caller claims to have found in the body does
// not count; whom it names does.
func TestDescribeBareCaller(t *testing.T) {
	body := []byte(`{"model":"m","user":"u"}`)
	facts, err := peek.JSON(body)
	if err != nil {
		t.Fatal(err)
	}
	h := Header{
		HeaderPrefix: {"AAAAAAAAAAE"}, HeaderTokens: {"9 9"}, HeaderSession: {"0123456789abcdef"}, HeaderTenant: {"t"}, HeaderPriority: {"3"},
	}
	Describe(h, Chat, "m", &facts, body)
	if h[HeaderPrefix] != nil || FirstHeader(h, HeaderTokens) == "9 9" {
		t.Errorf("its prefix and tokens are still %q, %q", h[HeaderPrefix], h[HeaderTokens])
	}
	if n, ok := Session(h); !ok || n != 0x0123456789abcdef || FirstHeader(h, HeaderTenant) != "t" || Priority(h) != 3 {
		t.Errorf("its session, tenant or priority changed: %v", h)
	}
	for _, v := range []string{"", "alice", "0123456789abcdeg", "0123456789abcdef0", "+123456789abcdef"} {
		h := Header{HeaderSession: {v}}
		Describe(h, Chat, "m", &facts, body)
		if n, ok := Session(h); !ok || n != peek.Seed("", "u") {
			t.Errorf("session %q became %q", v, h[HeaderSession])
		}
	}
}

// TestHintsStayInside: an HTTP client can't say what only Tokenbus says, and nothing
// of it reaches the engine.
func TestHintsStayInside(t *testing.T) {
	internal := []string{HeaderPrefix, HeaderTokens, HeaderSession, HeaderTenant, HeaderPriority, HeaderPredicted}
	for _, name := range internal {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			for _, api := range []API{Chat, Tokenize} {
				h := header(t, Request{API: api, Header: http.Header{spelt: {"0123456789abcdef"}}, Body: []byte(`{"model":"m"}`)})
				for n, v := range h {
					if slices.Contains(v, "0123456789abcdef") {
						t.Errorf("%s of a client became %s", spelt, n)
					}
				}
			}
		}
	}
	full := header(t, Request{
		API: Chat, Tenant: "t", Session: "s", Priority: 5, Body: []byte(`{"model":"m","messages":["` + strings.Repeat("word ", 200) + `"]}`),
		Header: http.Header{"X-Tokenbus-Session": {"s"}, "X-Tokenbus-Priority": {"5"}, "X-Custom": {"c"}},
	})
	set(full, HeaderPredicted, "500")
	for _, name := range internal {
		if full[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	engine := make(http.Header)
	EngineRequestHeaders(engine, full)
	if got := slices.Sorted(maps.Keys(engine)); !slices.Equal(got, []string{"Content-Type", "X-Custom"}) {
		t.Errorf("the engine gets %v", got)
	}
}

func BenchmarkDescribe(b *testing.B) {
	for name, n := range map[string]int{"8K": 28, "400K": 1400} {
		b.Run(name, func(b *testing.B) {
			body := []byte(`{"model":"m","messages":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"`+strings.Repeat("word ", 50)+`"},`, n), ",") + `]}`)
			facts, err := peek.JSON(body)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				Describe(make(Header, 8), Chat, "m", &facts, body)
			}
		})
	}
}
