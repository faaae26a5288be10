package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tokenbus/tokenbus/bus"
)

// dialect is the shape that an endpoint's errors have.
type dialect int

const (
	openAI    dialect = iota
	anthropic         // /v1/messages
)

func dialectOf(api bus.API) dialect {
	if api == bus.Messages || api == bus.CountTokens {
		return anthropic
	}
	return openAI
}

// anthropicTypes are the error types of the Messages API by status.
var anthropicTypes = map[int]string{
	http.StatusBadRequest:            "invalid_request_error",
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// errorBody is an error in the shape of a dialect.
func errorBody(d dialect, id string, e *bus.Error) []byte {
	if d != anthropic {
		return e.JSON()
	}
	kind, ok := anthropicTypes[e.Status()]
	if !ok {
		kind = "api_error"
	}
	var doc struct {
		Type  string `json:"type"`
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
		RequestID string `json:"request_id"`
	}
	doc.Type, doc.Error.Type, doc.Error.Message, doc.RequestID = "error", kind, e.Text(), id
	b, err := json.Marshal(doc)
	if err != nil {
		return e.JSON()
	}
	return b
}

// writeError answers a request with an error made by Tokenbus.
func writeError(w http.ResponseWriter, d dialect, id string, e *bus.Error) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["X-Tokenbus-Reason"] = []string{string(e.Reason)}
	if s := e.RetryAfterSeconds(); s != "" {
		h["Retry-After"] = []string{s}
	}
	b := errorBody(d, id, e)
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.WriteHeader(e.Status())
	_, _ = w.Write(b)
}

// errorEvent is an error within a stream, in the dialect of its endpoint. It is
// never followed by [DONE].
func errorEvent(api bus.API, id, model string, seen *tail, e *bus.Error) []byte {
	switch api {
	case bus.Responses:
		return append(append([]byte("event: response.failed\ndata: "), failedResponse(id, model, seen, e)...), "\n\n"...)
	case bus.Messages:
		return append(append([]byte("event: error\ndata: "), errorBody(anthropic, id, e)...), "\n\n"...)
	}
	return append(append([]byte("data: "), errorBody(openAI, id, e)...), "\n\n"...)
}

// failedResponse is the last event of a Responses stream that broke.
func failedResponse(id, model string, seen *tail, e *bus.Error) []byte {
	type apiError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	type response struct {
		ID                string   `json:"id"`
		Object            string   `json:"object"`
		Status            string   `json:"status"`
		Error             apiError `json:"error"`
		IncompleteDetails *string  `json:"incomplete_details"`
		Model             string   `json:"model"`
		Output            []string `json:"output"`
	}
	doc := struct {
		Type           string   `json:"type"`
		SequenceNumber int64    `json:"sequence_number"`
		Response       response `json:"response"`
	}{"response.failed", seen.number + 1, response{
		ID: seen.responseID, Object: "response", Status: "failed", Error: apiError{"server_error", e.Text()}, Model: model, Output: []string{},
	}}
	if doc.Response.ID == "" {
		doc.Response.ID = "resp_" + id
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return errorBody(openAI, id, e)
	}
	return b
}
