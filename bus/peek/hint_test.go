package peek

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
)

// TestHints: what is odd counts as absent and never makes a body invalid.
func TestHints(t *testing.T) {
	long := strings.Repeat("k", MaxHint+1)
	hash := strconv.FormatUint(xxhash.Sum64String(long), 16)
	cases := map[string]struct {
		body string
		want Hints
	}{
		"nothing":          {`{}`, Hints{N: 1}},
		"all":              {`{"n":3,"priority":-7,"prompt_cache_key":"k","user":"u"}`, Hints{N: 3, Priority: -7, PriorityGiven: true, CacheKey: "k", User: "u"}},
		"priority 0":       {`{"priority":0}`, Hints{N: 1, PriorityGiven: true}},
		"odd types":        {`{"n":"2","priority":[1],"prompt_cache_key":7,"user":{"a":"b"},"cache_salt":[],"tools":5}`, Hints{N: 1}},
		"null":             {`{"n":null,"priority":null,"prompt_cache_key":null,"user":null,"cache_salt":null,"tools":null}`, Hints{N: 1}},
		"no integers":      {`{"n":2.0,"priority":1e3}`, Hints{N: 1}},
		"out of range":     {`{"n":0,"priority":9223372036854775808}`, Hints{N: 1}},
		"negative n":       {`{"n":-1}`, Hints{N: 1}},
		"many":             {`{"n":1001}`, Hints{N: MaxN}},
		"the last counts":  {`{"n":2,"user":"a","n":3,"user":"b"}`, Hints{N: 3, User: "b"}},
		"the last good":    {`{"n":2,"user":"a","n":[],"user":1}`, Hints{N: 2, User: "a"}},
		"other case":       {`{"N":2,"User":"a","PRIORITY":1}`, Hints{N: 1}},
		"escaped":          {`{"us\u0065r":"\u0061\n","\u006e":4}`, Hints{N: 4, User: "a\n"}},
		"nested":           {`{"a":{"n":2,"user":"u"}}`, Hints{N: 1}},
		"limit":            {`{"user":"` + long[1:] + `"}`, Hints{N: 1, User: long[1:]}},
		"above the limit":  {`{"user":"` + long + `"}`, Hints{N: 1, User: hash}},
		"empty":            {`{"user":"","prompt_cache_key":""}`, Hints{N: 1}},
		"space about them": {"{ \"n\" :\t2\n, \"user\": \"u\" }", Hints{N: 2, User: "u"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := JSON([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if f.N != c.want.N || f.Priority != c.want.Priority || f.PriorityGiven != c.want.PriorityGiven || f.CacheKey != c.want.CacheKey || f.User != c.want.User {
				t.Errorf("got %+v, want %+v", f.Hints, c.want)
			}
		})
	}
	if f, err := JSON([]byte(`{"user":"u","prompt_cache_key":"k"}`)); err != nil || f.SessionKey() != "k" {
		t.Errorf("the session key is %q, %v", f.SessionKey(), err)
	}
	if f, err := JSON([]byte(`{"user":"u"}`)); err != nil || f.SessionKey() != "u" {
		t.Errorf("the session key is %q, %v", f.SessionKey(), err)
	}
}

// TestSections: the spans are those of the last value of each key.
func TestSections(t *testing.T) {
	body := `{"system": "S" ,"tools":[1],"x":{"messages":[0]},"messages":[{}],"instructions":"I","query":"Q","documents":["D"],"prompt":[1,2],"input":"N","cache_salt":"no","cache_salt":"salt","messages": [ 7 ] }`
	f, err := JSON([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [sections]string{
		toolsSection: `[1]`, systemSection: `"S"`, instructionsSection: `"I"`, querySection: `"Q"`, documentsSection: `["D"]`,
		messagesSection: `[ 7 ]`, promptSection: `[1,2]`, inputSection: `"N"`,
	} {
		if got := body[f.sections[i].from:f.sections[i].to]; got != want {
			t.Errorf("section %c is %s, want %s", mark[i][1], got, want)
		}
	}
	if got := body[f.salt.from:f.salt.to]; got != `"salt"` {
		t.Errorf("the salt is %s", got)
	}
}

func TestEstimate(t *testing.T) {
	image := `"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"`
	cases := map[string]struct {
		body           string
		prompt, output int64
	}{
		"empty":      {`{}`, 1, 256},
		"16 bytes":   {`{"prompt":"` + strings.Repeat("x", 14) + `"}`, 5, 256},
		"17 bytes":   {`{"prompt":"` + strings.Repeat("x", 15) + `"}`, 6, 256},
		"sum":        {`{"tools":[1234],"system":"1234","messages":[12]}`, 5, 256},
		"twice":      {`{"prompt":"` + strings.Repeat("x", 1000) + `","prompt":""}`, 1, 256},
		"unknown":    {`{"text_1":"abc","a":"bcdef"}`, 9, 256},
		"image":      {`{"messages":[` + image + `]}`, 5, 256},
		"limit":      {`{"max_tokens":10,"n":4}`, 8, 40},
		"no limit":   {`{"n":4}`, 3, 1024},
		"zero":       {`{"max_tokens":0}`, 5, 0},
		"very large": {`{"max_tokens":9223372036854775807,"n":1000}`, 14, math.MaxInt32 * 1000},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f, err := JSON([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if prompt, output := f.PromptTokens(), f.OutputTokens(); prompt != c.prompt || output != c.output {
				t.Errorf("got %d and %d tokens, want %d and %d", prompt, output, c.prompt, c.output)
			}
		})
	}
}

// TestEscapesAreLinear: a string of nothing but escapes takes time in proportion to
// its length; looking for its end again behind each of them would take hours.
func TestEscapesAreLinear(t *testing.T) {
	from := time.Now()
	for _, escape := range []string{`\n`, `\"`, `\\`} {
		if _, err := JSON([]byte(`{"prompt":"` + strings.Repeat(escape, 4<<20) + `"}`)); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(from); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestControl: the look at eight bytes at a time finds what a look at one finds.
func TestControl(t *testing.T) {
	for _, fill := range []byte{' ', '!', 0x7f, 0x80, 0x9f, 0xff} {
		for n := range 20 {
			b := []byte(strings.Repeat(string([]byte{fill}), n))
			if i := control(b); i != -1 {
				t.Errorf("%d × %#x: found one at %d", n, fill, i)
			}
			for i := range b {
				for _, c := range []byte{0, 1, 0x1f} {
					b[i] = c
					if got := control(b); got != i {
						t.Errorf("%#x at %d of %d × %#x: found at %d", c, i, n, fill, got)
					}
				}
				b[i] = fill
			}
		}
	}
}
