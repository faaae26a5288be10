package peek

import (
	"fmt"
	"strings"
	"testing"
)

// chat makes the body of a conversation of about size bytes.
func chat(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","stream":true,"messages":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"role":"user","content":"%d %s\n\"quoted\"\n"}`, i, strings.Repeat("word ", 50))
	}
	b.WriteString(`],"max_tokens":100}`)
	return []byte(b.String())
}

var benchBodies = map[string][]byte{
	"chat 8K": chat(8 << 10), "chat 400K": chat(400 << 10), "chat 4M": chat(4 << 20),
	"code 400K": []byte(`{"model":"m","prompt":"` + strings.Repeat(`\tif err != nil {\n\t\treturn err\n\t}\n`, 400<<10/38) + `"}`),
	"image 1M": []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		strings.Repeat("iVBORw0K", 1<<17) + `"}},{"type":"text","text":"` + strings.Repeat("word ", 200) + `"}]}]}`),
}

func BenchmarkPrefix(b *testing.B) {
	for name, body := range benchBodies {
		b.Run(name, func(b *testing.B) {
			facts, err := JSON(body)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var buf [MaxBlocks]uint64
			for b.Loop() {
				facts.Prefix(body, 1, buf[:0])
			}
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	for name, body := range benchBodies {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := JSON(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPrefixString(b *testing.B) {
	body := chat(400 << 10)
	facts, err := JSON(body)
	if err != nil {
		b.Fatal(err)
	}
	p := facts.Prefix(body, 1, nil)
	b.ReportAllocs()
	var buf [MaxBlocks]uint64
	for b.Loop() {
		if _, err := ParsePrefix(p.String(), buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
