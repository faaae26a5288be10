package peek

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime/multipart"
	"strings"
	"testing"
)

func apply(body []byte, s Splice) []byte {
	return []byte(string(body[:s.Offset]) + s.Text + string(body[s.Offset+s.Remove:]))
}

func TestJSON(t *testing.T) {
	cases := map[string]struct {
		body string
		want Facts
	}{
		"plain":          {`{"model":"m","messages":[]}`, Facts{Model: "m", MaxTokens: -1}},
		"stream":         {` { "stream" : true , "model" : "a/b" } `, Facts{Model: "a/b", Stream: true, MaxTokens: -1}},
		"usage asked":    {`{"stream_options":{"x":[1,{"a":"}"}],"include_usage":true},"model":"m"}`, Facts{Model: "m", UsageAsked: true, MaxTokens: -1}},
		"usage refused":  {`{"model":"m","stream_options":{"include_usage":false}}`, Facts{Model: "m", MaxTokens: -1}},
		"escaped key":    {`{"mod\u0065l":"m\u00e9\ud83d\ude00\n"}`, Facts{Model: "mé😀\n", MaxTokens: -1}},
		"limits":         {`{"max_tokens":5,"max_completion_tokens":7,"model":"m"}`, Facts{Model: "m", MaxTokens: 7}},
		"null":           {`{"stream":null,"stream_options":null,"max_tokens":null}`, Facts{MaxTokens: -1}},
		"empty":          {`{}`, Facts{MaxTokens: -1}},
		"nested model":   {`{"a":{"model":"x","MODEL":1},"b":[{"model":2}],"model":"m"}`, Facts{Model: "m", MaxTokens: -1}},
		"big numbers":    {`{"seed":1000000000000000000000,"x":-1.5e+300,"model":"m"}`, Facts{Model: "m", MaxTokens: -1}},
		"quoted escapes": {`{"x":"\"model\":\"no\"\\","model":"m"}`, Facts{Model: "m", MaxTokens: -1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := JSON([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if f.Model != c.want.Model || f.Stream != c.want.Stream || f.UsageAsked != c.want.UsageAsked || f.MaxTokens != c.want.MaxTokens {
				t.Errorf("got %+v, want %+v", f, c.want)
			}
			if !f.UsageAsked {
				checkUsage(t, []byte(c.body), f)
			}
			if f.Model == "" {
				edited := apply([]byte(c.body), f.ModelSplice("a\"\x01b"))
				if g, err := JSON(edited); err != nil || g.Model != "a\"\x01b" {
					t.Errorf("model splice made %s: %v", edited, err)
				}
			}
		})
	}
}

func checkUsage(t *testing.T, body []byte, f Facts) {
	t.Helper()
	sp := f.UsageSplice()
	back, err := ParseSplice(sp.String())
	if err != nil || back != sp {
		t.Fatalf("splice %q came back as %q: %v", sp, back, err)
	}
	edited := apply(body, sp)
	g, err := JSON(edited)
	if err != nil || !g.UsageAsked || g.Model != f.Model || g.Stream != f.Stream {
		t.Errorf("usage splice made %s: %+v, %v", edited, g, err)
	}
}

func TestJSONRefuses(t *testing.T) {
	cases := map[string]struct{ body, field string }{
		"truncated":            {`{"model":`, "model"},
		"array":                {`[]`, ""},
		"null":                 {`null`, ""},
		"nothing":              {``, ""},
		"mark":                 {"\xef\xbb\xbf{}", ""},
		"NaN":                  {`{"x":NaN}`, ""},
		"deep":                 {strings.Repeat("[", 10<<20), ""},
		"deep inside":          {`{"x":` + strings.Repeat("[", 10<<20), ""},
		"trailing comma":       {`{"x":1,}`, ""},
		"trailing text":        {`{} {}`, ""},
		"nul":                  {"{}\x00", ""},
		"leading zero":         {`{"x":01}`, ""},
		"bad escape":           {`{"x":"\q"}`, ""},
		"control":              {"{\"x\":\"\n\"}", ""},
		"crossed":              {`{"x":[}`, ""},
		"crossed deep":         {`{"x":[{"a":1]}}`, ""},
		"twice":                {`{"model":"a","model":"b"}`, "model"},
		"twice escaped":        {`{"model":"a","\u006dodel":"b"}`, "model"},
		"case variant":         {`{"Model":"a"}`, "model"},
		"case variant beside":  {`{"model":"a","MODEL":"b"}`, "model"},
		"number for model":     {`{"model":7}`, "model"},
		"empty model":          {`{"model":""}`, "model"},
		"stream as text":       {`{"stream":"yes"}`, "stream"},
		"stream twice":         {`{"stream":true,"stream":false}`, "stream"},
		"options as list":      {`{"stream_options":[]}`, "stream_options"},
		"include_usage twice":  {`{"stream_options":{"include_usage":true,"include_usage":false}}`, "stream_options.include_usage"},
		"missing colon":        {`{"x" 1}`, ""},
		"key without quotes":   {`{x:1}`, ""},
		"comma at the start":   {`{,"x":1}`, ""},
		"two values":           {`{"x":1 2}`, ""},
		"unterminated string":  {`{"x":"abc\"}`, ""},
		"half a surrogate esc": {`{"x":"\ud8"}`, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := JSON([]byte(c.body))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an Error", err)
			}
			if e.Field != c.field {
				t.Errorf("field is %q, want %q (%v)", e.Field, c.field, e)
			}
		})
	}
}

func form(t *testing.T, fields ...string) (string, []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fw, err := w.CreateFormFile("file", "a.wav")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fw.Write(bytes.Repeat([]byte("\x00\r\n--"), 1000)); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		if err := w.WriteField(fields[i], fields[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

func TestForm(t *testing.T) {
	kind, body := form(t, "model", "whisper", "stream", "True")
	if f, err := Form(kind, body); err != nil || f.Model != "whisper" || !f.Stream {
		t.Errorf("got %+v, %v", f, err)
	}
	for name, fields := range map[string][]string{
		"twice": {"model", "a", "model", "b"}, "case": {"Model", "a"}, "long": {"model", strings.Repeat("x", 2000)},
	} {
		kind, body := form(t, fields...)
		if _, err := Form(kind, body); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Form("application/json", body); err == nil {
		t.Error("wrong content type: no error")
	}
	if _, err := Form(kind, body[:len(body)-10]); err == nil {
		t.Error("broken form: no error")
	}
}

// FuzzJSON checks the scan against encoding/json: what one takes as an object the
// other takes, and both see the same model.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"model":"m","stream":true}`, `{"stream_options":{"include_usage":false,"a":[{}]}}`, `{"mod\u0065l":"\ud83d\ude00"}`, `{"x":[1,-0.5e3,"\\"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		facts, err := JSON(body)
		var want map[string]json.RawMessage
		jsonErr := json.Unmarshal(body, &want)
		if err == nil && (jsonErr != nil || want == nil) {
			t.Fatalf("took what is not a JSON object: %v", jsonErr)
		}
		if err != nil {
			var e *Error
			if jsonErr == nil && want != nil && errors.As(err, &e) && e.Field == "" && !strings.Contains(e.Text, "nested") {
				t.Fatalf("refused a JSON object: %v", err)
			}
			return
		}
		var model string
		if raw, ok := want["model"]; ok && json.Unmarshal(raw, &model) == nil && model != string(bytes.ToValidUTF8([]byte(facts.Model), []byte("�"))) && model != facts.Model {
			if !strings.Contains(model, "�") {
				t.Fatalf("model is %q, encoding/json says %q", facts.Model, model)
			}
		}
		if !facts.UsageAsked {
			checkUsage(t, body, facts)
		}
	})
}

func BenchmarkJSON8K(b *testing.B) {
	body := []byte(`{"model":"m","messages":[` + strings.TrimSuffix(strings.Repeat(`{"role":"user","content":"`+strings.Repeat("word ", 50)+`"},`, 28), ",") + `],"stream":true}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := JSON(body); err != nil {
			b.Fatal(err)
		}
	}
}
