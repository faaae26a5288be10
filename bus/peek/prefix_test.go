package peek

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

func hashes(t interface {
	Helper()
	Fatalf(string, ...any)
}, body string, seed uint64,
) Prefix {
	t.Helper()
	f, err := JSON([]byte(body))
	if err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	return f.Prefix([]byte(body), seed, nil)
}

// same counts the leading blocks that two prompts share.
func same(a, b Prefix) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// content builds what is hashed in the plain way: with encoding/json, in one piece.
func content(t *testing.T, body []byte) (salt, content []byte) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	value := func(key string) []byte {
		if v := m[key]; string(v) != "null" {
			return v
		}
		return nil
	}
	for _, s := range []struct {
		letter byte
		key    string
	}{
		{'t', "tools"}, {'s', "system"}, {'i', "instructions"}, {'q', "query"}, {'d', "documents"}, {'m', "messages"}, {'p', "prompt"}, {'n', "input"},
	} {
		v := value(s.key)
		if v == nil {
			continue
		}
		content = append(content, 0, s.letter)
		switch v[0] {
		case '[':
			v = bytes.Trim(v[1:len(v)-1], " \t\r\n")
		case '"':
			v = v[:len(v)-1]
		}
		for i := 0; i < len(v); i++ {
			content = append(content, v[i])
			if v[i] != '"' {
				continue
			}
			end := i + 1
			for end < len(v) && v[end] != '"' {
				if v[end] == '\\' {
					end++
				}
				end++
			}
			if text := v[i+1 : end]; len(text) > 1024 && bytes.HasPrefix(text, []byte("data:")) {
				content = append(content, 1)
				content = binary.LittleEndian.AppendUint64(content, xxhash.Sum64(text))
			} else {
				content = append(content, text...)
			}
			if end < len(v) {
				content = append(content, '"')
			}
			i = end
		}
	}
	return value("cache_salt"), content
}

// chained hashes content in the plain way.
func chained(salt, content []byte, seed uint64) (p Prefix) {
	if salt != nil {
		d := xxhash.NewWithSeed(seed)
		_, _ = d.Write(salt)
		seed = d.Sum64()
	}
	for i := 0; BlockBytes(i) > 0 && len(content) >= BlockBytes(i); i++ {
		n := BlockBytes(i)
		seed = xxhash.Sum64(append(binary.LittleEndian.AppendUint64(nil, seed), content[:n]...))
		p = append(p, seed)
		content = content[n:]
	}
	return p
}

// check compares a prefix with the plain way.
func check(t *testing.T, body []byte, seed uint64) {
	t.Helper()
	facts, err := JSON(body)
	if err != nil {
		t.Fatal(err)
	}
	var buf [MaxBlocks]uint64
	got := facts.Prefix(body, seed, buf[:0])
	salt, plain := content(t, body)
	if want := chained(salt, plain, seed); !slices.Equal(got, want) {
		t.Fatalf("%d hashes, want %d; they differ from block %d on", len(got), len(want), same(got, want))
	}
	if again := facts.Prefix(body, seed, nil); !slices.Equal(got, again) {
		t.Fatal("the second time there are other hashes")
	}
	if n := got.Bytes(); n > len(plain) || len(got) < MaxBlocks && n+BlockBytes(len(got)) <= len(plain) {
		t.Fatalf("%d blocks cover %d of %d bytes", len(got), n, len(plain))
	}
}

func TestBlocks(t *testing.T) {
	sum := 0
	for i := range MaxBlocks + 2 {
		if n := make(Prefix, i).Bytes(); n != sum {
			t.Fatalf("%d blocks have %d bytes, want %d", i, n, sum)
		}
		sum += BlockBytes(i)
	}
	for i, want := range map[int]int{-1: 0, 0: 256, 127: 256, 128: 1024, 223: 1024, 224: 8192, 319: 8192, 320: 0} {
		if n := BlockBytes(i); n != want {
			t.Errorf("block %d has %d bytes, want %d", i, n, want)
		}
	}
	if sum != 896<<10 {
		t.Errorf("all blocks have %d bytes", sum)
	}
}

// TestDifference: two prompts share the blocks before the first difference, and none
// from there on.
func TestDifference(t *testing.T) {
	words := func(n int) string { return strings.Repeat("word ", n/5) }
	image := func(c string) string { return "data:image/png;base64," + strings.Repeat(c, 5000) }
	chat := func(head, a, b string) string {
		return fmt.Sprintf(`{%s"messages":[{"role":"user","content":"%s"},{"role":"user","content":"%s"},{"role":"user","content":"%s"}]}`, head, a, b, words(4000))
	}
	m, n := words(2000), words(2005)
	first := len(`--{"role":"user","content":"`) + 2000 // bytes before the end of the first message's text
	at := (first + len(`"},{"role":"user","content":"`)) / 256
	cases := map[string]struct {
		a, b   string
		shared int // -1: all
	}{
		"nothing":            {chat("", m, "x"), chat("", m, "x"), -1},
		"other members":      {chat(`"model":"m","stream":true,"seed":5,`, m, "x"), chat("", m, "x"), -1},
		"order of members":   {`{"tools":[1],"messages":["` + m + `"]}`, `{"messages":["` + m + `"],"tools":[1]}`, -1},
		"space outside":      {chat("", m, "x"), " \n" + strings.ReplaceAll(chat("", m, "x"), `"messages":[`, ` "messages" : [ `), -1},
		"null":               {chat(`"tools":null,"cache_salt":null,`, m, "x"), chat("", m, "x"), -1},
		"space inside":       {chat("", m, "x"), strings.ReplaceAll(chat("", m, "x"), `"role":`, `"role": `), 0},
		"later text":         {chat("", m, "xy"), chat("", m, "yx"), at},
		"length":             {chat("", m, "x"), chat("", n, "x"), first / 256},
		"image":              {chat("", m, image("A")), chat("", m, image("B")), at},
		"image or none":      {chat("", m, image("A")), chat("", m, ""), at},
		"image length":       {chat("", m, image("A")), chat("", m, image("A")+"A"), at},
		"address of image":   {chat("", m, "https://a/1.png"), chat("", m, "https://a/2.png"), at},
		"small image":        {chat("", m, "data:,A"), chat("", m, "data:,B"), at},
		"salt":               {chat(`"cache_salt":"a",`, m, "x"), chat(`"cache_salt":"b",`, m, "x"), 0},
		"salt or none":       {chat(`"cache_salt":"a",`, m, "x"), chat("", m, "x"), 0},
		"empty salt":         {chat(`"cache_salt":"",`, m, "x"), chat("", m, "x"), 0},
		"tools":              {chat(`"tools":[1],`, m, "x"), chat(`"tools":[2],`, m, "x"), 0},
		"tools or none":      {chat(`"tools":[1],`, m, "x"), chat("", m, "x"), 0},
		"empty tools":        {chat(`"tools":[],`, m, "x"), chat("", m, "x"), 0},
		"system":             {chat(`"system":"a",`, m, "x"), chat(`"system":"b",`, m, "x"), 0},
		"which section":      {chat(`"system":"a",`, m, "x"), chat(`"instructions":"a",`, m, "x"), 0},
		"tools for messages": {`{"tools":["` + m + `"]}`, `{"messages":["` + m + `"]}`, 0},
		"prompt for input":   {`{"prompt":"` + m + `"}`, `{"input":"` + m + `"}`, 0},
		"border of sections": {`{"tools":[1,2],"messages":[3,"` + m + `"]}`, `{"tools":[1],"messages":[2,3,"` + m + `"]}`, 0},
		"documents":          {chat(`"documents":[{"text":"a"}],`, m, "x"), chat(`"documents":[{"text":"b"}],`, m, "x"), 0},
		"query":              {`{"query":"a","documents":["` + m + `"]}`, `{"query":"b","documents":["` + m + `"]}`, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, []byte(c.a), 1)
			check(t, []byte(c.b), 1)
			a, b := hashes(t, c.a, 1), hashes(t, c.b, 1)
			want := c.shared
			if want < 0 {
				want = max(len(a), len(b))
			}
			if got := same(a, b); got != want {
				t.Errorf("%d blocks are shared, want %d", got, want)
			}
			for i := same(a, b); i < min(len(a), len(b)); i++ {
				if a[i] == b[i] {
					t.Errorf("block %d is equal behind the difference", i)
				}
			}
		})
	}
	body := chat("", m, "x")
	for _, other := range []uint64{Seed("m2", "t"), Seed("m", "t2"), Seed("m", ""), Seed("m")} {
		if n := same(hashes(t, body, Seed("m", "t")), hashes(t, body, other)); n != 0 {
			t.Errorf("another seed shares %d blocks", n)
		}
	}
}

func TestSeed(t *testing.T) {
	seen := make(map[uint64][]string)
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"ab", ""}, {"ab"}, {"", "ab"}, {"a\x00b"}, {"b", "a"}} {
		s := Seed(parts...)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q have one seed", parts, other)
		}
		seen[s] = parts
	}
}

// TestLongPrompts: files and long texts are bounded, and none of it allocates.
func TestLongPrompts(t *testing.T) {
	file := "data:audio/wav;base64," + strings.Repeat("QUJD", 1<<19)
	escaped := `\u0064ata:` + strings.Repeat("QUJD", 1000)
	cases := map[string]struct {
		body   string
		blocks int
	}{
		"none":            {`{"model":"m"}`, 0},
		"short":           {`{"prompt":"` + strings.Repeat("x", 252) + `"}`, 0},
		"one block":       {`{"prompt":"` + strings.Repeat("x", 253) + `"}`, 1},
		"long text":       {`{"prompt":"` + strings.Repeat("word ", 1<<20) + `"}`, MaxBlocks},
		"file":            {`{"messages":["` + file + `"]}`, 0},
		"file alone":      {`{"prompt":"` + file + `"}`, 0},
		"files":           {`{"messages":["` + strings.Repeat(file+`","`, 30) + `"]}`, 1},
		"file as a key":   {`{"messages":[{"` + file + `":1}]}`, 0},
		"file elsewhere":  {`{"x":"` + file + `","prompt":"` + strings.Repeat("x", 600) + `","y":"` + file + `"}`, 2},
		"escaped scheme":  {`{"messages":["` + escaped + `"]}`, 15},
		"scheme, capital": {`{"messages":["DATA:` + strings.Repeat("QUJD", 1000) + `"]}`, 15},
		"list of nothing": {`{"messages":[ ` + strings.Repeat(" ", 1000) + ` ]}`, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			body := []byte(c.body)
			check(t, body, 1)
			f, err := JSON(body)
			if err != nil {
				t.Fatal(err)
			}
			if p := f.Prefix(body, 1, nil); len(p) != c.blocks {
				t.Errorf("%d blocks, want %d", len(p), c.blocks)
			}
			var buf [MaxBlocks]uint64
			if n := testing.AllocsPerRun(3, func() { f.Prefix(body, 1, buf[:0]) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if p := f.Prefix(body[:len(body)-1], 1, nil); len(p) != 0 {
				t.Error("facts of another body have a prefix")
			}
		})
	}
}

func TestFormHasNoPrefix(t *testing.T) {
	kind, body := form(t, "model", "m", "prompt", strings.Repeat("x", 1000))
	f, err := Form(kind, body)
	if err != nil {
		t.Fatal(err)
	}
	if p := f.Prefix(body, 1, nil); len(p) != 0 {
		t.Errorf("%d blocks", len(p))
	}
}

// FuzzPrefix: the hashes of any body are those of the plain way.
func FuzzPrefix(f *testing.F) {
	text := strings.Repeat("word ", 300)
	for _, s := range []string{
		`{"messages":[{"role":"user","content":"` + text + `"}],"tools":[ ]}`,
		`{"prompt":"data:,` + text + `","cache_salt":"s"}`,
		`{"tools":[1],"tools":null,"system":"\"data:,` + text + `","input":["data:,` + text + `"]}`,
		`{"m\u0065ssages":{"data:,` + text + `":["` + text + `\u0064"]},"query":7,"documents":"` + text + `"}`,
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		facts, err := JSON(body)
		if err != nil {
			_ = facts.Prefix(body, seed, nil)
			return
		}
		if facts.PromptTokens() < 1 || facts.ContentBytes() > len(body)+inlineMark || facts.OutputTokens() < 0 {
			t.Errorf("%d tokens for %d bytes of %d", facts.PromptTokens(), facts.ContentBytes(), len(body))
		}
		check(t, body, seed)
	})
}
