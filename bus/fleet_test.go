package bus

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func record(epoch string, seq uint64, status Status, full bool, started time.Time) Record {
	r := Record{State: State{ID: "a", Epoch: epoch, Seq: seq, Status: status, Capacity: 4, Full: full}, Started: started}
	if full {
		r.Models, r.EngineHealth = []Model{{ID: "m"}}, "ok"
	}
	return r
}

// TestMerge: what an agent said last counts, in the order in which it said it
// (invariant 1).
func TestMerge(t *testing.T) {
	first, second := time.Unix(1000, 0), time.Unix(2000, 0) // when the epochs began
	old := record("e2", 5, StatusReady, true, second)
	short := func(epoch string, seq uint64) Record { return record(epoch, seq, StatusReady, false, time.Time{}) }
	cases := map[string]struct {
		old  Record
		said Record
		live bool
		ok   bool
		want string // who is believed: old, said, or both
	}{
		"first word, full":               {Record{}, record("e1", 1, StatusReady, true, first), false, true, "said"},
		"first word, short":              {Record{}, short("e1", 1), false, false, "old"},
		"first word, gone":               {Record{}, record("e1", 1, StatusGone, false, first), false, true, "said"},
		"full, newer":                    {old, record("e2", 6, StatusReady, true, second), true, true, "said"},
		"full, same seq":                 {old, record("e2", 5, StatusReady, true, second), true, true, "said"},
		"full, out of order":             {old, record("e2", 4, StatusReady, true, second), true, false, "old"},
		"short, newer":                   {old, short("e2", 6), true, true, "both"},
		"short, same seq":                {old, short("e2", 5), true, true, "both"},
		"short, out of order":            {old, short("e2", 4), true, false, "old"},
		"short, other epoch":             {old, short("e3", 9), true, false, "old"},
		"short, after a long silence":    {old, short("e2", 9), false, false, "old"},
		"full, after a long silence":     {old, record("e2", 1, StatusReady, true, second), false, true, "said"},
		"a new process":                  {old, record("e3", 1, StatusReady, true, time.Unix(3000, 0)), true, true, "said"},
		"gone":                           {old, record("e2", 6, StatusGone, false, second), true, true, "said"},
		"gone, out of order":             {old, record("e2", 4, StatusGone, false, second), true, false, "old"},
		"gone, an epoch that is over":    {old, record("e1", 99, StatusGone, false, first), true, false, "old"},
		"gone, of one long silent":       {old, record("e1", 99, StatusGone, false, first), false, true, "said"},
		"full, an epoch that is over":    {old, record("e1", 99, StatusReady, true, first), true, false, "old"}, // a late beat of the process before
		"short, same epoch, other agent": {old, Record{State: State{ID: "b", Epoch: "e2", Seq: 9}}, true, false, "old"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, ok := Merge(c.old, c.said, c.live)
			if ok != c.ok {
				t.Errorf("news: %v, want %v", ok, c.ok)
			}
			want := c.old
			switch c.want {
			case "said":
				want = c.said
			case "both":
				want.State = c.said.State
			}
			if got.State != want.State || len(got.Models) != len(want.Models) || got.EngineHealth != want.EngineHealth {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestParseUsage(t *testing.T) {
	cases := map[string]struct {
		text string
		want Usage
		ok   bool
	}{
		"usual": {"10 20 5", Usage{10, 20, 5}, true}, "nothing": {"", Usage{}, false}, "two": {"10 20", Usage{}, false},
		"words": {"a b c", Usage{}, false}, "too large": {"99999999999999999999 1 1", Usage{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if u, ok := parseUsage(c.text); u != c.want || ok != c.ok {
				t.Errorf("got %v, %v", u, ok)
			}
		})
	}
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.Int64Range(0, 1<<53)
		u := Usage{count.Draw(rt, "prompt"), count.Draw(rt, "completion"), count.Draw(rt, "cached")}
		if back, ok := parseUsage(u.String()); !ok || back != u {
			rt.Fatalf("%v came back as %v, %v", u, back, ok)
		}
	})
}

// TestEnginePath: only the listed paths of an API reach an engine.
func TestEnginePath(t *testing.T) {
	apis := make(map[API]bool)
	for _, r := range Routes {
		apis[r.API] = true
	}
	for api := range apis {
		def, ok := api.EnginePath("")
		if !ok || !strings.HasPrefix(def, "/") || !api.Known() {
			t.Errorf("%s has the default path %q, %v", api, def, ok)
		}
		for _, r := range Routes {
			if p, ok := api.EnginePath(r.Path); ok != (r.API == api) || ok && p != r.Path {
				t.Errorf("%s and %s: %q, %v", api, r.Path, p, ok)
			}
		}
	}
	cases := map[string]struct {
		api  API
		path string
		want string
	}{
		"default is the first": {Rerank, "", "/v1/rerank"}, "an alternative": {Rerank, "/v2/rerank", "/v2/rerank"},
		"another API's": {Chat, "/v1/completions", ""}, "unknown API": {"admin", "", ""}, "unknown API, known path": {"admin", "/v1/completions", ""},
		"traversal": {Chat, "/v1/chat/completions/../../admin", ""}, "query": {Chat, "/v1/chat/completions?x=1", ""},
		"trailing slash": {Chat, "/v1/chat/completions/", ""}, "case": {Chat, "/V1/chat/completions", ""}, "relative": {Chat, "v1/chat/completions", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if p, ok := c.api.EnginePath(c.path); ok != (c.want != "") || ok && p != c.want {
				t.Errorf("got %q, %v, want %q", p, ok, c.want)
			}
		})
	}
}

// TestInterest: a caller is gone after the server has said so for a while, in a row.
func TestInterest(t *testing.T) {
	type step struct {
		at   time.Duration
		does string // "nobody", "probed" or "heard"
	}
	cases := map[string]struct {
		steps []step
		at    time.Duration // when it is asked
		gone  bool
	}{
		"nothing said":        {nil, time.Hour, false},
		"just now":            {[]step{{0, "nobody"}}, goneAfter - 1, false},
		"for long enough":     {[]step{{0, "nobody"}}, goneAfter, true},
		"each probe":          {[]step{{0, "nobody"}, {200, "probed"}, {201, "nobody"}, {400, "probed"}, {401, "nobody"}}, 500 * time.Millisecond, true},
		"one probe was fine":  {[]step{{0, "nobody"}, {200, "probed"}, {400, "probed"}, {401, "nobody"}}, 600 * time.Millisecond, false},
		"it came back":        {[]step{{0, "nobody"}, {100, "heard"}}, time.Second, false},
		"it went again":       {[]step{{0, "nobody"}, {100, "heard"}, {200, "nobody"}}, 650 * time.Millisecond, false},
		"it went and stayed":  {[]step{{0, "nobody"}, {100, "heard"}, {200, "nobody"}}, 700 * time.Millisecond, true},
		"the first probe due": {[]step{{0, "probed"}, {1, "nobody"}}, 501 * time.Millisecond, true},
	}
	base := time.Unix(1_700_000_000, 0)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var i Interest
			for _, s := range c.steps {
				switch s.does {
				case "nobody":
					i.Nobody(base.Add(s.at * time.Millisecond))
				case "probed":
					i.Probed()
				case "heard":
					i = Interest{}
				}
			}
			if i.Gone(base.Add(c.at)) != c.gone {
				t.Errorf("gone: %v", !c.gone)
			}
		})
	}
}

func TestTraces(t *testing.T) {
	for version, want := range map[string]bool{
		"2.10.9": false, "2.11.0": true, "2.15.3-beta.1": true, "3.0": true, "1.99": false, "": false, "dev": false,
	} {
		if traces(version) != want {
			t.Errorf("%q: traces %v", version, !want)
		}
	}
}
