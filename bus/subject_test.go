package bus

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// anyText draws any bytes at all, often with those that matter to a subject.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) }),
		rapid.StringOfN(rapid.RuneFrom([]rune("aZ0_/-=.*> \t\r\n$é\x00F2E")), 0, 20, -1),
	)
}

var (
	oneToken = regexp.MustCompile(`^[^.*>\x00-\x20\x7f-\xff]+$`)
	kvKey    = regexp.MustCompile(`^[-/_=.a-zA-Z0-9]+$`) // what nats.go takes as a key
)

func checkToken(t testing.TB, s, token string) {
	t.Helper()
	if !oneToken.MatchString(token) {
		t.Errorf("%q becomes %q, which is not one subject token", s, token)
	}
	if !kvKey.MatchString(token) {
		t.Errorf("%q becomes %q, which is not a KV key", s, token)
	}
	if back, err := DecodeToken(token); err != nil || back != s {
		t.Errorf("%q becomes %q and comes back as %q: %v", s, token, back, err)
	}
}

func TestEncodeToken(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"design.md's own": {"meta-llama/Llama-3.1-8B", "meta-llama/Llama-3=2E1-8B"},
		"plain":           {"azAZ09_/-", "azAZ09_/-"},
		"empty":           {"", "="},
		"the escape":      {"=", "=3D"},
		"looks escaped":   {"=2E", "=3D2E"},
		"wildcards":       {"*.>", "=2A=2E=3E"},
		"bytes of a rune": {"é", "=C3=A9"},
		"not UTF-8":       {"\xff\x00", "=FF=00"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := EncodeToken(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			checkToken(t, c.text, c.want)
		})
	}
}

// TestTokenRoundTrip: any name has one subject token and one KV key, and no two
// names share one (invariant 12).
func TestTokenRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := anyText().Draw(rt, "a"), anyText().Draw(rt, "b")
		checkToken(t, a, EncodeToken(a))
		if (EncodeToken(a) == EncodeToken(b)) != (a == b) {
			rt.Errorf("%q and %q become %q and %q", a, b, EncodeToken(a), EncodeToken(b))
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// decodes checks that a token is either refused or the only one of its name.
func decodes(t testing.TB, token string) {
	t.Helper()
	s, err := DecodeToken(token)
	if err != nil {
		if !errors.Is(err, ErrName) || s != "" {
			t.Errorf("%q: got %q and %v, want nothing and ErrName", token, s, err)
		}
		return
	}
	if again := EncodeToken(s); again != token {
		t.Errorf("%q is taken as %q, whose token is %q", token, s, again)
	}
}

func TestDecodeTokenRefuses(t *testing.T) {
	for name, token := range map[string]string{
		"nothing": "", "dot": "a.b", "star": "*", "space": "a b", "half an escape": "a=2", "an escape cut off": "a=",
		"lower-case hex": "=2e", "not hex": "=G0", "a plain byte escaped": "=41", "two empties": "==", "empty within": "=a",
		"raw byte": "\xc3\xa9", "raw byte and escape": "=2E\xff", "slash escaped": "=2F", "newline": "=2E\n",
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := DecodeToken(token); err == nil {
				t.Errorf("%q is taken as %q", token, s)
			}
			decodes(t, token)
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		if decodes(t, anyText().Draw(rt, "token")); t.Failed() {
			rt.FailNow()
		}
	})
}

func FuzzDecodeToken(f *testing.F) {
	for _, s := range []string{"", "=", "a=2Eb", "=2e", "=41", "a=", "meta-llama/Llama-3=2E1-8B", "a.b", "=FF=00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		decodes(t, s)
		checkToken(t, s, EncodeToken(s))
	})
}

func TestCheckModel(t *testing.T) {
	cases := map[string]struct {
		model string
		ok    bool
	}{
		"usual":                        {"meta-llama/Llama-3.1-8B", true},
		"empty":                        {"", false},
		"longest":                      {strings.Repeat("a", MaxModelBytes), true},
		"too long":                     {strings.Repeat("a", MaxModelBytes+1), false},
		"long and escaped":             {strings.Repeat(".", MaxModelBytes), false},
		"longest escaped, still short": {strings.Repeat(".", 126), true},
		"escaped, one too many":        {strings.Repeat(".", 127), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := CheckModel(c.model)
			if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrName) {
				t.Errorf("got %v, want ok=%v", err, c.ok)
			}
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		model := rapid.StringN(0, 250, -1).Draw(rt, "model")
		if CheckModel(model) != nil {
			return
		}
		for _, r := range Routes {
			if s := RequestSubject(model, r.API); len(s) > maxSubjectBytes {
				rt.Fatalf("the subject of %q has %d bytes", model, len(s))
			}
		}
	})
}

func TestCheckID(t *testing.T) {
	for name, c := range map[string]struct {
		id string
		ok bool
	}{
		"usual": {"gpu-7.rack", true}, "empty": {"", false},
		"longest": {strings.Repeat("x", MaxIDBytes), true}, "too long": {strings.Repeat("x", MaxIDBytes+1), false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckID("agent id", c.id); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrName) {
				t.Errorf("got %v, want ok=%v", err, c.ok)
			}
		})
	}
}

func TestParseRequestSubject(t *testing.T) {
	cases := map[string]struct {
		subject, model string
		api            API
		ok             bool
	}{
		"usual":         {"tb.req.meta-llama/Llama-3=2E1-8B.chat", "meta-llama/Llama-3.1-8B", Chat, true},
		"unknown API":   {"tb.req.m.nonsense", "m", "nonsense", true}, // refused by whoever knows the APIs
		"other root":    {"tb.agent.m.chat", "", "", false},
		"no API":        {"tb.req.m", "", "", false},
		"one too many":  {"tb.req.m.chat.x", "", "", false},
		"bad token":     {"tb.req.=41.chat", "", Chat, false},
		"nothing":       {"", "", "", false},
		"empty model":   {"tb.req..chat", "", Chat, false},
		"almost a root": {"tb.request.m.chat", "", "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			model, api, err := ParseRequestSubject(c.subject)
			if model != c.model || api != c.api || (err == nil) != c.ok {
				t.Errorf("got %q, %q, %v", model, api, err)
			}
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		model, api := anyText().Draw(rt, "model"), rapid.SampledFrom(Routes).Draw(rt, "route").API
		if m, a, err := ParseRequestSubject(RequestSubject(model, api)); err != nil || m != model || a != api {
			rt.Fatalf("%q %q came back as %q %q: %v", model, api, m, a, err)
		}
	})
}

// TestSubjectsHoldAnyName: an id never adds a token or a wildcard to a subject.
func TestSubjectsHoldAnyName(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := anyText().Draw(rt, "name")
		for subject, tokens := range map[string]int{
			DispatchSubject(s, "e"): 5, AgentControlPrefix(s, "e") + "x": 6, CommandSubject(s, "ping"): 5,
			BeatSubject(s, s): 4, EventSubject("agent", s): 4, RequestSubject(s, Chat): 4,
		} {
			parts := strings.Split(subject, ".")
			for _, p := range parts {
				if !oneToken.MatchString(p) {
					rt.Fatalf("%q: token %q of %q", s, p, subject)
				}
			}
			if len(parts) != tokens {
				rt.Fatalf("%q: %q has %d tokens, want %d", s, subject, len(parts), tokens)
			}
		}
	})
}
