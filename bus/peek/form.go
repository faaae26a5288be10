package peek

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"strconv"
	"strings"
)

// maxFormValue bounds the value of a form field that is read, in bytes.
const maxFormValue = 1024

// Form reads the facts of a multipart form: the fields model and stream. The error
// is an *[Error].
func Form(contentType string, body []byte) (Facts, error) {
	f := none()
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return f, &Error{Text: "the content type must be multipart/form-data with a boundary"}
	}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	var seen [2]bool
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return f, nil
		}
		if err != nil {
			return f, &Error{Offset: len(body), Text: "the multipart form is broken: " + err.Error()}
		}
		name := part.FormName()
		i := field([]byte(name), false)
		if i != 0 && i != 1 {
			continue
		}
		if name != fields[i] {
			return f, &Error{Field: fields[i], Text: fmt.Sprintf("the form field is spelt %q; it must be %q", name, fields[i])}
		}
		if seen[i] {
			return f, &Error{Field: name, Text: "the form field appears twice"}
		}
		seen[i] = true
		value, err := io.ReadAll(io.LimitReader(part, maxFormValue+1))
		if err != nil || len(value) > maxFormValue {
			return f, &Error{Field: name, Text: fmt.Sprintf("the form field is broken or longer than %d bytes", maxFormValue)}
		}
		if i == 0 {
			f.Model = string(value)
		} else {
			f.Stream, _ = strconv.ParseBool(strings.ToLower(string(value)))
		}
	}
}
