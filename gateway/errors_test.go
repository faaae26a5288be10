package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// anyText draws what may turn up in a message: odd bytes, line ends, markup.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 30), func(b []byte) string { return string(b) }),
		rapid.StringOf(rapid.SampledFrom([]rune("\r\n\x00\"\\:{}<>& dataevt"))))
}

func anyError() *rapid.Generator[*bus.Error] {
	return rapid.Custom(func(rt *rapid.T) *bus.Error {
		return &bus.Error{
			Reason: rapid.SampledFrom([]bus.Reason{
				bus.ReasonBadRequest, bus.ReasonModelNotFound, bus.ReasonTooLarge, bus.ReasonQueueFull, bus.ReasonNoAgents, bus.ReasonEngineLost,
				bus.ReasonDeadline, bus.ReasonInternal, bus.ReasonMethod, bus.ReasonCancelled, "made_up",
			}).Draw(rt, "reason"),
			Message: anyText().Draw(rt, "message"), Hint: anyText().Draw(rt, "hint"), Param: anyText().Draw(rt, "param"),
		}
	})
}

// event reads one server-sent event as a client does, and fails unless there is
// exactly one.
func event(rt *rapid.T, text []byte) (name string, data []byte) {
	rt.Helper()
	body, ok := strings.CutSuffix(string(text), "\n\n")
	if !ok || strings.Contains(body, "\n\n") || strings.Contains(body, "\r") {
		rt.Fatalf("not one event: %q", text)
	}
	for line := range strings.SplitSeq(body, "\n") {
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case field == "event" && name == "" && data == nil:
			name = value
		case field == "data" && data == nil:
			data = []byte(value)
		default:
			rt.Fatalf("line %q in %q", line, text)
		}
	}
	return name, data
}

// TestErrorEvent: whatever the message, an error within a stream is one event in
// the dialect of its endpoint, and does not look like the end of a stream that is
// whole (invariant 6).
func TestErrorEvent(t *testing.T) {
	apis := make([]bus.API, 0, len(bus.Routes))
	for _, r := range bus.Routes {
		apis = append(apis, r.API)
	}
	rapid.Check(t, func(rt *rapid.T) {
		api := rapid.SampledFrom(apis).Draw(rt, "api")
		e, id, model := anyError().Draw(rt, "error"), anyText().Draw(rt, "id"), anyText().Draw(rt, "model")
		seen := &tail{api: api, number: rapid.Int64Range(-1, 1000).Draw(rt, "number")}
		if rapid.Bool().Draw(rt, "begun") {
			seen.responseID = "resp_seen"
		}
		name, data := event(rt, errorEvent(api, id, model, seen, e))
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			rt.Fatalf("%s: %v", data, err)
		}
		inner, _ := doc["error"].(map[string]any)
		switch api {
		case bus.Responses:
			r, _ := doc["response"].(map[string]any)
			failure, _ := r["error"].(map[string]any)
			if name != "response.failed" || doc["type"] != name || doc["sequence_number"] != float64(seen.number+1) || r["status"] != "failed" || failure["message"] == nil ||
				seen.responseID != "" && r["id"] != seen.responseID || !strings.HasPrefix(r["id"].(string), "resp_") {
				rt.Fatalf("event %q: %s", name, data)
			}
		case bus.Messages:
			if name != "error" || doc["type"] != "error" || inner["type"] == nil || inner["message"] == nil {
				rt.Fatalf("event %q: %s", name, data)
			}
		default:
			if name != "" || inner["message"] == nil || inner["code"] != string(e.Reason) {
				rt.Fatalf("event %q: %s", name, data)
			}
		}
	})
}

// TestAnthropicErrors: the errors of the Messages API have its shape and its types.
func TestAnthropicErrors(t *testing.T) {
	for reason, kind := range map[bus.Reason]string{
		bus.ReasonBadRequest: "invalid_request_error", bus.ReasonModelNotFound: "not_found_error", bus.ReasonTooLarge: "request_too_large",
		bus.ReasonQueueFull: "rate_limit_error", bus.ReasonEngineBusy: "rate_limit_error", bus.ReasonNoAgents: "overloaded_error",
		bus.ReasonDeadline: "timeout_error", bus.ReasonInternal: "api_error", bus.ReasonEngineLost: "api_error", bus.ReasonMethod: "api_error",
	} {
		t.Run(string(reason), func(t *testing.T) {
			var doc struct {
				Type  string
				Error struct{ Type, Message string }
				ID    string `json:"request_id"`
			}
			if err := json.Unmarshal(errorBody(anthropic, "req-1", &bus.Error{Reason: reason, Message: "m", Hint: "h"}), &doc); err != nil {
				t.Fatal(err)
			}
			if doc.Type != "error" || doc.Error.Type != kind || doc.Error.Message != "m; h" || doc.ID != "req-1" {
				t.Errorf("got %+v, want type %s", doc, kind)
			}
		})
	}
	for api, want := range map[bus.API]dialect{bus.Messages: anthropic, bus.CountTokens: anthropic, bus.Chat: openAI, bus.Responses: openAI} {
		if dialectOf(api) != want {
			t.Errorf("%s has dialect %d", api, dialectOf(api))
		}
	}
}

// TestWriteError: an answer made here has the status of its reason, its length and
// JSON, and says when to come back if that is what it is about.
func TestWriteError(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := anyError().Draw(rt, "error")
		e.RetryAfter = time.Duration(rapid.IntRange(0, 5000).Draw(rt, "retry")) * time.Millisecond
		d := rapid.SampledFrom([]dialect{openAI, anthropic}).Draw(rt, "dialect")
		w := httptest.NewRecorder()
		writeError(w, d, "req-1", e)
		h := w.Header()
		if w.Code != e.Status() || h.Get("Content-Type") != "application/json" || h.Get("Content-Length") != strconv.Itoa(w.Body.Len()) || !json.Valid(w.Body.Bytes()) {
			rt.Fatalf("%d %v %s", w.Code, h, w.Body)
		}
		if h.Get("X-Tokenbus-Reason") != string(e.Reason) {
			rt.Fatalf("reason %q", h.Get("X-Tokenbus-Reason"))
		}
		timely := w.Code == http.StatusTooManyRequests || w.Code == http.StatusServiceUnavailable
		if retry := h.Get("Retry-After"); timely && retry == "" || retry == "0" {
			rt.Fatalf("%d with Retry-After %q", w.Code, retry)
		}
	})
}

// TestRequestID: a client's request id is kept if it can stand in a header and a
// log; any other is replaced. Either way it is returned.
func TestRequestID(t *testing.T) {
	cases := map[string]struct {
		id   string
		kept bool
	}{
		"usual": {"req-1", true}, "none": {"", false}, "longest": {strings.Repeat("x", maxRequestID), true}, "too long": {strings.Repeat("x", maxRequestID+1), false},
		"space": {"a b", false}, "line end": {"a\r\nX: y", false}, "control": {"a\x00", false}, "delete": {"a\x7f", false}, "not ASCII": {"é", false}, "not UTF-8": {"\xff", false},
		"punctuation": {"a/b:c;d=\"e\"~!", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
			if c.id != "" {
				r.Header["X-Request-Id"] = []string{c.id}
			}
			w := httptest.NewRecorder()
			id := requestID(w, r)
			if (id == c.id) != c.kept || id == "" || w.Header().Get("X-Request-Id") != id {
				t.Errorf("%q became %q, returned as %q", c.id, id, w.Header().Get("X-Request-Id"))
			}
			if !c.kept && requestID(w, r) == id {
				t.Error("invariant 12: two requests got one id")
			}
		})
	}
}
