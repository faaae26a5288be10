package bus

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// declared are the values of the Reason constants, as the source has them.
func declared(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []Reason
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		for _, v := range spec.Values {
			s, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, Reason(s))
		}
		return true
	})
	return list
}

// TestReasons: each reason has its row of the one table, and a refusal that is
// about time says when to come back (design.md §7).
func TestReasons(t *testing.T) {
	list := declared(t)
	if len(list) < 20 {
		t.Fatalf("only %d reasons were found", len(list))
	}
	seen := make(map[Reason]bool)
	for _, r := range list {
		if seen[r] {
			t.Errorf("%s is declared twice", r)
		}
		seen[r] = true
		row, ok := reasons[r]
		if !ok {
			t.Errorf("%s has no row", r)
			continue
		}
		if row.status < 400 || row.status > 599 || row.kind == "" {
			t.Errorf("%s has status %d and type %q", r, row.status, row.kind)
		}
		retry := (&Error{Reason: r}).RetryAfterSeconds()
		if timely := row.status == http.StatusTooManyRequests || row.status == http.StatusServiceUnavailable; timely != (retry != "") {
			t.Errorf("%s (%d) has Retry-After %q", r, row.status, retry)
		}
	}
	if len(reasons) != len(list) {
		t.Errorf("the table has %d rows for %d reasons", len(reasons), len(list))
	}
}

func anyError() *rapid.Generator[*Error] {
	return rapid.Custom(func(rt *rapid.T) *Error {
		e := &Error{
			Reason: rapid.OneOf(rapid.SampledFrom([]Reason{ReasonQueueFull, ReasonNoAgents, ReasonBadRequest, ReasonInternal}), rapid.Just(Reason("made_up"))).Draw(rt, "reason"),
			Hint:   anyText().Draw(rt, "hint"), Param: anyText().Draw(rt, "param"), Message: anyText().Draw(rt, "message"),
		}
		e.RetryAfter = time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(rt, "retry"))
		return e
	})
}

func TestErrorJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := anyError().Draw(rt, "error")
		var doc map[string]map[string]any
		if err := json.Unmarshal(e.JSON(), &doc); err != nil {
			rt.Fatalf("%s: %v", e.JSON(), err)
		}
		o := doc["error"]
		if len(doc) != 1 || len(o) != 4 || o["code"] != string(e.Reason) || o["type"] != e.Type() {
			rt.Fatalf("not OpenAI's error object: %s", e.JSON())
		}
		message, ok := o["message"].(string)
		if text := strings.ToValidUTF8(e.Text(), "\ufffd"); !ok || e.Text() == text && !strings.HasPrefix(message, text) {
			rt.Fatalf("message %q became %s", e.Message, e.JSON())
		}
		if (o["param"] == nil) != (e.Param == "") {
			rt.Fatalf("param %q became %v", e.Param, o["param"])
		}
	})
}

// TestErrorHeaders: an error crosses the bus in its headers, and no text breaks
// out of them.
func TestErrorHeaders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := anyError().Draw(rt, "error")
		h := make(Header)
		e.SetHeaders(h)
		for name, v := range h {
			if len(v) != 1 || strings.ContainsAny(v[0], "\r\n\x00") {
				rt.Fatalf("header %s is %q", name, v)
			}
		}
		if code := FirstHeader(h, HeaderErrorCode); code != strconv.Itoa(e.Status()) {
			rt.Fatalf("code %s for status %d", code, e.Status())
		}
		back := ErrorFrom(h)
		want := *e
		want.Peer = true
		want.Message, want.Hint, want.Param = headerText(e.Message), headerText(e.Hint), headerText(e.Param)
		if _, known := reasons[e.Reason]; !known {
			want.Reason = ReasonInternal
		}
		want.RetryAfter = 0
		if s := e.RetryAfterSeconds(); s != "" {
			n, _ := strconv.Atoi(s)
			want.RetryAfter = time.Duration(n) * time.Second
			if want.RetryAfter < e.RetryAfter || want.RetryAfter > e.RetryAfter+time.Second {
				rt.Fatalf("retry after %v became %v", e.RetryAfter, want.RetryAfter)
			}
		}
		if *back != want {
			rt.Fatalf("got %+v, want %+v", *back, want)
		}
	})
	if e := ErrorFrom(Header{"Content-Type": {"x"}}); e != nil {
		t.Errorf("an error from nothing: %v", e)
	}
	if e := ErrorFrom(nil); e != nil {
		t.Errorf("an error from no headers: %v", e)
	}
}

// TestErrorFromStranger: headers of any NATS micro service, however odd.
func TestErrorFromStranger(t *testing.T) {
	cases := map[string]struct {
		retry string
		want  time.Duration
	}{
		"none": {"", 0}, "seconds": {"7", 7 * time.Second}, "a date": {"Wed, 21 Oct 2015 07:28:00 GMT", 0},
		"negative": {"-3", 0}, "a fraction": {"1.5", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			e := ErrorFrom(Header{HeaderErrorCode: {"418"}, HeaderError: {"teapot"}, "Retry-After": {c.retry}})
			if e.Reason != ReasonInternal || e.Message != "teapot" || !e.Peer || e.RetryAfter != c.want {
				t.Errorf("got %+v", e)
			}
		})
	}
	t.Run("longer than a duration", func(t *testing.T) {
		for _, s := range []string{"9223372037", "18446744074", "9223372036854775807"} {
			e := ErrorFrom(Header{HeaderErrorCode: {"429"}, HeaderReason: {string(ReasonQueueFull)}, "Retry-After": {s}})
			if e.RetryAfter < time.Hour {
				t.Errorf("Retry-After %s s is read as %v", s, e.RetryAfter)
			}
		}
	})
}

func TestErrorChain(t *testing.T) {
	e := Errorf(ReasonEngineLost, "read the engine: %w", io.ErrUnexpectedEOF)
	if !errors.Is(e, io.ErrUnexpectedEOF) || e.Message != "read the engine: unexpected EOF" {
		t.Errorf("got %v, cause %v", e, e.Cause)
	}
	if AsError(fmt.Errorf("serve: %w", e)) != e {
		t.Error("AsError does not find the error in a chain")
	}
	secret := errors.New("password hunter2")
	wrapped := AsError(secret)
	if wrapped.Reason != ReasonInternal || strings.Contains(wrapped.Error()+string(wrapped.JSON()), "hunter2") || !errors.Is(wrapped, secret) {
		t.Errorf("got %v", wrapped)
	}
	hinted := &Error{Reason: ReasonNoScheduler, Message: "m", Hint: "h"}
	if got := hinted.Error(); !strings.Contains(got, "no_scheduler") || !strings.Contains(got, "(h)") {
		t.Errorf("got %q", got)
	}
}

// TestFailure: a failure keeps the engine's words, and without any becomes an
// error with a reason of its class.
func TestFailure(t *testing.T) {
	cases := map[string]struct {
		f    Failure
		want Reason
	}{
		"engine 429": {Failure{Class: ClassBusy, Status: 429}, ReasonEngineBusy},
		"engine 503": {Failure{Class: ClassBusy, Status: 503}, ReasonEngineBusy},
		"engine 500": {Failure{Class: ClassEngineError, Status: 500}, ReasonEngineError},
		"refused":    {Failure{Class: ClassRefused}, ReasonNoAgents},
		"lost":       {Failure{Class: ClassLost}, ReasonEngineLost},
		"unknown":    {Failure{Class: "?"}, ReasonEngineLost},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if e := c.f.Err(); e.Reason != c.want {
				t.Errorf("got %s, want %s", e.Reason, c.want)
			}
			c.f.Header, c.f.Body = Header{"Retry-After": {"9"}, HeaderAgent: {"x"}, "X-Engine": {"1"}}, []byte("engine's")
			h, body, engine := c.f.answer(make(Header))
			if engine != (c.f.Status != 0) || engine != (string(body) == "engine's") {
				t.Errorf("engine's own: %v, body %q", engine, body)
			}
			if engine && (!slices.Equal(names(h), []string{"Retry-After", HeaderBytes, HeaderStatus, "X-Engine"}) || h["Retry-After"][0] != "9") {
				t.Errorf("headers %v", h)
			}
			if !engine && ErrorFrom(h) == nil {
				t.Errorf("no error in %v", h)
			}
		})
	}
}
