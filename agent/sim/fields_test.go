package sim

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// The walker sees what encoding/json sees.
func FuzzFields(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":"x\"}","c":[1,{"d":"]"}],"e":null,"a":{"\\":"\\\\"}}`, ` { } `, `[]`, `null`,
		`{"\u0061":true , "b" : [ ] }`, `{"\ud800":-1.5e9}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !json.Valid(b) || !utf8.Valid(b) {
			return
		}
		got := map[string]json.RawMessage{}
		err := eachField(b, func(name string, raw []byte) { got[name] = raw })
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			if err == nil {
				t.Fatalf("fields in %s", b)
			}
			return
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%v: %d fields, want %d", err, len(got), len(want))
		}
		for name, raw := range want {
			if !bytes.Equal(raw, got[name]) {
				t.Fatalf("%q is %s, want %s", name, got[name], raw)
			}
			var list []json.RawMessage
			isList := json.Unmarshal(raw, &list) == nil && list != nil
			i := 0
			if ok := eachElement(raw, func(v []byte) {
				if !bytes.Equal(v, list[i]) {
					t.Fatalf("element %d is %s, want %s", i, v, list[i])
				}
				i++
			}); ok != isList || i != len(list) {
				t.Fatalf("%d elements, want %d", i, len(list))
			}
		}
	})
}
