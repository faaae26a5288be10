package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

// usageEvent is an event that holds only usage, padded to about n bytes.
func usageEvent(n int) string {
	return fmt.Sprintf(`data: {"choices":[],"x":"%s","usage":{"prompt_tokens":5,"completion_tokens":7}}`+"\n\n", strings.Repeat("y", n))
}

// TestSSELong: an event that is too long to be kept passes, whatever it holds
// (invariant 10); a shorter one is looked at, however it is split (invariant 7).
func TestSSELong(t *testing.T) {
	cases := map[string]struct {
		size int
		drop bool
	}{
		"of one read": {100, true}, "of many reads": {20 << 10, true}, "almost too long": {maxHeld - 4<<10, true},
		"too long": {maxHeld + 4<<10, false}, "far too long": {1 << 20, false},
	}
	for name, c := range cases {
		for _, step := range []int{streamBuffer, 7, 1} {
			if step < 7 && c.size > maxHeld {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d at a time", name, step), func(t *testing.T) {
				before, event, after := "data: a\n\n", usageEvent(c.size), "data: b\n\ndata: [DONE]\n\n"
				want := before + after
				if !c.drop {
					want = before + event + after
				}
				s := &sseStream{api: bus.Chat, strip: true}
				var out bytes.Buffer
				for p := []byte(before + event + after); len(p) > 0; {
					n := min(step, len(p))
					out.Write(s.feed(p[:n]))
					if len(s.held) > maxHeld {
						t.Fatalf("invariant 10: %d bytes are held", len(s.held))
					}
					p = p[n:]
				}
				out.Write(s.flush())
				if out.String() != want {
					t.Errorf("%d bytes came out, want %d", out.Len(), len(want))
				}
				if s.hasUsage != c.drop || !s.finished() {
					t.Errorf("usage %v, finished %v", s.hasUsage, s.finished())
				}
			})
		}
	}
}

// TestSSEFlows: a stream without strip passes at once, and with it all but the
// event that is not complete: no token waits for the next one.
func TestSSEFlows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all, _, _ := drawStream(rt)
		plain, strip := &sseStream{api: bus.Chat}, &sseStream{api: bus.Chat, strip: true}
		in, out := 0, 0
		for p := []byte(all); len(p) > 0; {
			n := rapid.IntRange(1, min(len(p), 60)).Draw(rt, "cut")
			if got := plain.feed(p[:n]); !bytes.Equal(got, p[:n]) {
				rt.Fatalf("invariant 7: %q became %q", p[:n], got)
			}
			out += len(strip.feed(p[:n]))
			in, p = in+n, p[n:]
			// An event is complete behind its blank line.
			seen := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(all[:in])
			if strings.HasSuffix(seen, "\n\n") && !strings.Contains(seen, `"choices":[],`) && out != in {
				rt.Fatalf("%d of %d bytes of whole events passed: %q", out, in, all[:in])
			}
		}
	})
}

// TestSSEBounded: what is remembered of a stream does not grow with it (invariant
// 10).
func TestSSEBounded(t *testing.T) {
	for _, strip := range []bool{false, true} {
		s := &sseStream{api: bus.Chat, strip: strip}
		chunk := []byte("data: " + strings.Repeat("x", 3000) + "\n\n: comment\n\n" + strings.Repeat("z", 500))
		for range 2000 {
			s.feed(chunk)
		}
		kept := 0
		for _, k := range s.kept {
			kept += cap(k)
		}
		if kept > keptEvents*2*keptBytes || cap(s.held) > 2*maxHeld || cap(s.out) > 4*len(chunk) {
			t.Errorf("strip %v: %d bytes of events, %d held, %d for output", strip, kept, cap(s.held), cap(s.out))
		}
	}
}

// TestSSEMixedEnds: lines may end in LF, CR or CRLF, each as it likes.
func TestSSEMixedEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		eol := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
		var all, want strings.Builder
		for range rapid.IntRange(1, 6).Draw(rt, "events") {
			// CR and then LF would be one end of a line, so an LF never follows a CR.
			line, blank := eol.Draw(rt, "line"), eol.Draw(rt, "blank")
			if line == "\r" && blank == "\n" {
				blank = "\r"
			}
			only := rapid.Bool().Draw(rt, "only usage")
			text := `data: {"choices":[{}],"usage":null}`
			if only {
				text = `data: {"choices":[],"usage":{"prompt_tokens":1}}`
			}
			all.WriteString(text + line + blank)
			if !only {
				want.WriteString(text + line + blank)
			}
		}
		s := &sseStream{api: bus.Chat, strip: true}
		if got := pass(s, all.String(), func(left int) int { return rapid.IntRange(1, min(left, 20)).Draw(rt, "cut") }); got != want.String() {
			rt.Fatalf("invariant 7:\n got %q\nwant %q\nfrom %q", got, want.String(), all.String())
		}
	})
}

// BenchmarkFeedPlain is the path of a stream whose usage chunk the caller asked for.
func BenchmarkFeedPlain(b *testing.B) {
	chunk := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n")
	s := &sseStream{api: bus.Chat}
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		s.feed(chunk)
	}
}
