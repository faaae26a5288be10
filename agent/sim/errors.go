package sim

import (
	"fmt"
	"net/http"
	"strconv"
)

// apiError is an answer in vLLM's error envelope.
type apiError struct {
	status  int
	kind    string // the envelope's "type"
	message string
	param   string // "" is null
}

func (e *apiError) Error() string { return e.message }

// body returns the envelope, without a final newline, as vLLM sends it.
func (e *apiError) body() string {
	param := "null"
	if e.param != "" {
		param = `"` + jsonInner(e.param) + `"`
	}
	return `{"error":{"message":"` + jsonInner(e.message) + `","type":"` + jsonInner(e.kind) +
		`","param":` + param + `,"code":` + strconv.Itoa(e.status) + `}}`
}

// anthropicBody is the envelope of the /v1/messages routes.
func (e *apiError) anthropicBody() string {
	return `{"type":"error","error":{"type":"` + jsonInner(e.kind) + `","message":"` + jsonInner(e.message) + `"}}`
}

// badRequest is an answer of vLLM's own checks.
func badRequest(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...), param}
}

// invalid is an answer of the request model's validation.
func invalid(err error) *apiError {
	return &apiError{http.StatusBadRequest, "Bad Request", "1 validation error:\n  " + err.Error(), ""}
}

func noModel(name string) *apiError {
	return &apiError{http.StatusNotFound, "NotFoundError", "The model `" + name + "` does not exist.", "model"}
}

// byStatus is the answer of the HTTP layer itself, such as 404 and 405.
func byStatus(status int) *apiError {
	return &apiError{status, http.StatusText(status), http.StatusText(status), ""}
}

// engineDead is what vLLM answers once its engine process is gone.
func engineDead() *apiError {
	return &apiError{http.StatusInternalServerError, "InternalServerError",
		"EngineCore encountered an issue. See stack trace (above) for the root cause.", ""}
}

func tooLong(limit, want, prompt int) *apiError {
	return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, you requested "+
		"%d output tokens and your prompt contains at least %d input tokens, for a total of at least %d tokens. "+
		"Please reduce the length of the input prompt or the number of requested output tokens.",
		limit, want, prompt, want+prompt)
}
