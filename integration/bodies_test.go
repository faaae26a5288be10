package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// sizes of request bodies, in bytes: beyond one TCP segment, the inline limit, and
// NATS's max_payload.
var sizes = map[string]int{"33 KB": 33 << 10, "64 KiB + 1": 64<<10 + 1, "1.1 MB": 1_100_000, "12 MB": 12 << 20, "40 MB": 40 << 20}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// filler is text that differs everywhere, so that a part in the wrong place shows.
func filler(size int) []byte {
	b := make([]byte, 0, size+32)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "%x-日本🙂 ", i*2654435761)
	}
	return b[:size:size]
}

// gotBody checks that the engine got exactly these bytes, once (invariant 7).
func (s *system) gotBody(name string, want []byte) {
	s.t.Helper()
	if e := s.last(); e.BodyBytes != int64(len(want)) || e.BodySHA256 != sum(want) {
		s.t.Errorf("invariant 7: %s: the engine got %d bytes, sha256 %s, want %d, %s", name, e.BodyBytes, e.BodySHA256, len(want), sum(want))
	}
	if n := s.sim.Counts().Received; n != 1 {
		s.t.Errorf("%s: the engine saw %d requests", name, n)
	}
	s.sim.ClearRecord()
}

// JSON bodies of any size arrive byte-equal; a streaming one that does not ask for
// usage with just that spliced in.
func TestBodiesJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.script("ok", jsonType, `{"ok":true}`)
	for name, size := range sizes {
		text := bytes.ToValidUTF8(filler(size), nil)
		for what, c := range map[string]struct{ head, upward string }{
			"whole":               {`{"stream":false,`, `{"stream":false,`},
			"stream, usage":       {`{"stream":true` + askUsage + `,`, `{"stream":true` + askUsage + `,`},
			"stream, no usage":    {`{"stream":true,`, `{"stream_options":{"include_usage":true},"stream":true,`},
			"stream, usage later": {"{\n \"stream_options\" : { } , \"stream\":true,", "{\n \"stream_options\" : {\"include_usage\":true} , \"stream\":true,"},
		} {
			if size > 12<<20 && what != "stream, no usage" {
				continue
			}
			rest := fmt.Appendf(nil, `"model":"%s","messages":[{"role":"user","content":"%s"}]}`, model, text)
			a := s.do(http.MethodPost, "/v1/chat/completions", bytes.NewReader(append([]byte(c.head), rest...)), "X-Sim-Script", "ok")
			if a.status != 200 || string(a.body) != `{"ok":true}` {
				t.Fatalf("%s, %s: status %d: %.200s", name, what, a.status, a.body)
			}
			s.gotBody(name+", "+what, append([]byte(c.upward), rest...))
		}
	}
}

// Forms are opaque: they arrive byte-equal with their boundary.
func TestBodiesMultipart(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, size := range sizes {
		for _, path := range []string{"/v1/audio/transcriptions", "/v1/audio/translations"} {
			if size > 12<<20 && path == "/v1/audio/translations" {
				continue
			}
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			part, err := form.CreateFormFile("file", "a \"quoted\" näme.wav")
			check(t, err)
			_, _ = part.Write(filler(size))
			check(t, form.WriteField("model", model))
			check(t, form.Close())
			a := s.do(http.MethodPost, path, bytes.NewReader(body.Bytes()), "Content-Type", form.FormDataContentType())
			if a.status != 200 || !strings.Contains(string(a.body), `"text":"`) {
				t.Fatalf("%s: status %d: %.200s", name, a.status, a.body)
			}
			if e := s.last(); e.Path != path || e.Header.Get("Content-Type") != form.FormDataContentType() {
				t.Errorf("%s: the engine got %s, %q", name, e.Path, e.Header.Get("Content-Type"))
			}
			s.gotBody(name, body.Bytes())
		}
	}
}

// Large answers arrive byte-equal, whether the engine says their length or not.
func TestBodiesAnswers(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, size := range map[string]int{"empty object": 0, "64 KiB - 1": 64<<10 - 1, "64 KiB": 64 << 10, "1.1 MB": 1_100_000, "8 MB": 8 << 20, "20 MB": 20 << 20} {
		want := []byte("{}")
		if size > 0 {
			want = fmt.Appendf(nil, `{"data" : [null, 1E400, "%s"]}`, filler(size-26))
		}
		for what, length := range map[string]bool{"length": true, "chunked": false} {
			key := name + " " + what
			f := scripted(key, jsonType)
			f.Pieces = []sim.Piece{{Base64: want}}
			if length {
				f.Headers["Content-Length"] = fmt.Sprint(len(want))
			}
			s.inject(f)
			for _, path := range []string{"/v1/embeddings", "/v1/chat/completions"} {
				a := s.post(path, `{"model":"`+model+`","input":"x"}`, "X-Sim-Script", key)
				if a.status != 200 || a.err != nil {
					t.Errorf("%s: status %d, %v", key, a.status, a.err)
				}
				sameBytes(t, key, a.body, want)
			}
		}
	}
}
