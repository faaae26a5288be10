package bus

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var kinds = []Kind{KindQueued, KindAccepted, KindHead, KindData, KindEnd, KindWhole, KindError, KindKeepalive}

func TestFrameReplyRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		agent, attempt := anyText().Draw(rt, "agent"), rapid.StringMatching(`[A-Za-z0-9-]{1,40}`).Draw(rt, "attempt")
		control := AgentControlPrefix(agent, "epoch") + attempt
		kind, seq := rapid.SampledFrom(kinds).Draw(rt, "kind"), rapid.Uint64().Draw(rt, "seq")
		reply := frameReply(control, kind, seq)
		c, k, n, ok := parseFrameReply(reply)
		if !ok || c != control || k != kind || n != seq {
			rt.Fatalf("%q came back as %q %c %d %v", reply, c, k, n, ok)
		}
	})
}

func TestParseFrameReply(t *testing.T) {
	cases := map[string]struct {
		reply string
		ok    bool
	}{
		"shortest":       {"a.d.0", true},
		"largest number": {"a.d." + strconv.FormatUint(math.MaxUint64, 10), true},
		"no control":     {".d.1", false},
		"nothing":        {"", false},
		"dots":           {"....", false},
		"no number":      {"a.d.", false},
		"too large":      {"a.d.18446744073709551616", false},
		"negative":       {"a.d.-1", false},
		"signed":         {"a.d.+1", false},
		"unknown kind":   {"a.z.1", false},
		"long kind":      {"a.dd.1", false},
		"an inbox":       {"_INBOX.abcdef.1", false},
		"a jetstream ack": {
			"$JS.ACK.stream.consumer.1.2.3.1700000000000000000.0", false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if control, kind, seq, ok := parseFrameReply(c.reply); ok != c.ok {
				t.Errorf("%q: got %q %c %d %v", c.reply, control, kind, seq, ok)
			}
		})
	}
}

func FuzzParseFrameReply(f *testing.F) {
	for _, s := range []string{"", "a.d.1", ".d.1", "a.d.007", "tb.agent.a.e.ctl.x-1-1.h.1", "tb.sched.s.ctl.1.q.0", "a.k.18446744073709551615", "d.d.d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		control, kind, seq, ok := parseFrameReply(reply)
		if !ok {
			if control != "" || kind != 0 || seq != 0 {
				t.Errorf("%q is refused with %q %c %d", reply, control, kind, seq)
			}
			return
		}
		if control == "" || !strings.HasPrefix(reply, control+"."+string(rune(kind))+".") {
			t.Errorf("%q: control %q, kind %c", reply, control, kind)
		}
		if c, k, n, ok := parseFrameReply(frameReply(control, kind, seq)); !ok || c != control || k != kind || n != seq {
			t.Errorf("%q came back as %q %c %d %v", reply, c, k, n, ok)
		}
	})
}

func TestKinds(t *testing.T) {
	numbered := map[Kind]bool{KindHead: true, KindData: true, KindEnd: true, KindWhole: true, KindError: true}
	final := map[Kind]bool{KindEnd: true, KindWhole: true, KindError: true}
	for _, k := range kinds {
		if k.Numbered() != numbered[k] || k.Final() != final[k] {
			t.Errorf("%c: numbered %v, final %v", k, k.Numbered(), k.Final())
		}
	}
}

func TestParseControl(t *testing.T) {
	cases := map[string]struct {
		rest, id, verb string
		seq            uint64
		ok             bool
	}{
		"cancel":          {"s-1-2.cancel", "s-1-2", verbCancel, 0, true},
		"ack":             {"s-1-2.ack.17", "s-1-2", verbAck, 17, true},
		"resend":          {"x.resend.18446744073709551615", "x", verbResend, math.MaxUint64, true},
		"frame came back": {"x.d.3", "x", "d", 3, true},
		"unknown word":    {"x.nonsense", "x", "nonsense", 0, true}, // nobody handles it
		"no word":         {"x", "", "", 0, false},
		"empty word":      {"x.", "", "", 0, false},
		"empty id":        {".ack.1", "", "", 0, false},
		"no number":       {"x.ack.", "", "", 0, false},
		"not a number":    {"x.ack.z", "", "", 0, false},
		"two numbers":     {"x.ack.1.2", "", "", 0, false},
		"empty":           {"", "", "", 0, false},
		"only dots":       {"..", "", "", 0, false},
		"no word, number": {"x..1", "", "", 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			id, verb, seq, ok := parseControl(c.rest)
			if ok != c.ok || ok && (id != c.id || verb != c.verb || seq != c.seq) {
				t.Errorf("%q: got %q %q %d %v", c.rest, id, verb, seq, ok)
			}
		})
	}
}

func FuzzParseControl(f *testing.F) {
	for _, s := range []string{"", ".", "a.cancel", "a.ack.1", "a.ack.x", "a..1", "a.b.c.d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		id, verb, _, ok := parseControl(rest)
		if ok && (id == "" || verb == "" || !strings.HasPrefix(rest, id+"."+verb)) {
			t.Errorf("%q: got %q %q", rest, id, verb)
		}
	})
}

func BenchmarkFrameReply(b *testing.B) {
	control := AgentControlPrefix("gpu-7", "JLmNQX4b1fYhVp0y6dGdJR") + "JLmNQX4b1fYhVp0y6dGdKL-2s-1"
	b.ReportAllocs()
	for b.Loop() {
		frameReply(control, KindData, 123456)
	}
}

func BenchmarkParseFrameReply(b *testing.B) {
	reply := frameReply(AgentControlPrefix("gpu-7", "JLmNQX4b1fYhVp0y6dGdJR")+"JLmNQX4b1fYhVp0y6dGdKL-2s-1", KindData, 123456)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, ok := parseFrameReply(reply); !ok {
			b.Fatal("not a frame")
		}
	}
}
