package bus

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var allNotes = []Note{NoteAccepted, NoteBusy, NoteDraining, NoteUnknownModel, NoteNotReady, NoteFirst, NoteEnd, NoteGood}

// encodeNotes writes a message as a Notifier does.
func encodeNotes(s State, notes []AttemptNote) []byte {
	n := &Notifier{wake: make(chan struct{}, 1), pending: make(map[string][]byte)}
	for _, a := range notes {
		n.Say("s", a.Attempt, a.Note)
	}
	return append(encodeState(s), n.pending["s"]...)
}

func TestNotesRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		state := State{
			ID: anyText().Draw(rt, "id"), Epoch: rapid.StringMatching(`[A-Za-z0-9]{1,22}`).Draw(rt, "epoch"), Seq: rapid.Uint64().Draw(rt, "seq"),
			Active: rapid.Int().Draw(rt, "active"), Capacity: rapid.Int().Draw(rt, "capacity"),
			Status: rapid.SampledFrom([]Status{StatusStarting, StatusReady, StatusDraining, StatusGone}).Draw(rt, "status"),
		}
		notes := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) AttemptNote {
			return AttemptNote{rapid.StringMatching(`[A-Za-z0-9]{1,22}-[a-z0-9]{1,4}-[0-9]{1,2}`).Draw(rt, "attempt"), rapid.SampledFrom(allNotes).Draw(rt, "note")}
		}), 0, 20).Draw(rt, "notes")
		before := []AttemptNote{{"kept", NoteEnd}}
		s, got, ok := DecodeNotes(encodeNotes(state, notes), before)
		if !ok || s != state || !slices.Equal(got, append(before, notes...)) {
			rt.Fatalf("got %+v %v %v, want %+v %v", s, got, ok, state, notes)
		}
	})
}

func TestDecodeNotesRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "newlines": "\n\n", "too few": "id e 1 2 ready", "too many": "id e 1 2 3 ready x", "bad id": "=41 e 1 2 3 ready",
		"negative number": "id e -1 2 3 ready", "not a count": "id e 1 x 3 ready", "not a capacity": "id e 1 2 y ready",
		"half a note": "id e 1 2 3 ready\naccepted", "JSON": `{"id":"x"}`, "overflow": "id e 18446744073709551616 2 3 ready",
	} {
		t.Run(name, func(t *testing.T) {
			if s, notes, ok := DecodeNotes([]byte(text), nil); ok {
				t.Errorf("%q is taken as %+v %v", text, s, notes)
			}
		})
	}
}

func FuzzDecodeNotes(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("id e 1 2 3 ready"))
	f.Add([]byte("id e 1 2 3 ready\naccepted s-1-1\nend s-2-1"))
	f.Add([]byte("id e 1 2 3 ready\n\n"))
	f.Add(encodeNotes(State{ID: "a.b c", Epoch: "x", Seq: math.MaxUint64, Active: -1, Capacity: 1 << 40, Status: StatusGone}, []AttemptNote{{"s-1-1", NoteBusy}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		state, notes, ok := DecodeNotes(data, nil)
		if !ok {
			return
		}
		s, n, ok := DecodeNotes(encodeNotes(state, notes), nil)
		if !ok || s != state || !slices.Equal(n, notes) {
			t.Errorf("%q is %+v %v, and then %+v %v %v", data, state, notes, s, n, ok)
		}
	})
}

// TestRefusals: only a note that says that nothing ran makes another agent safe
// (invariant 4).
func TestRefusals(t *testing.T) {
	want := map[Note]bool{NoteBusy: true, NoteDraining: true, NoteUnknownModel: true, NoteNotReady: true}
	for _, n := range append(allNotes, "", "nonsense") {
		if n.Refusal() != want[n] {
			t.Errorf("%q: refusal %v", n, n.Refusal())
		}
	}
}

// TestNotifierSpares: a first byte is said with the next message, everything else
// at once.
func TestNotifierSpares(t *testing.T) {
	for _, note := range allNotes {
		n := &Notifier{wake: make(chan struct{}, 1), pending: make(map[string][]byte)}
		n.Say("s", "a", note)
		if woken := len(n.wake) == 1; woken != (note != NoteFirst) {
			t.Errorf("%s: woken %v", note, woken)
		}
	}
}

func BenchmarkDecodeNotes(b *testing.B) {
	var notes []AttemptNote
	for range 8 {
		notes = append(notes, AttemptNote{"JLmNQX4b1fYhVp0y6dGdKL-2s9-1", NoteAccepted}, AttemptNote{"JLmNQX4b1fYhVp0y6dGdKL-2s8-1", NoteEnd})
	}
	data := encodeNotes(State{ID: "gpu-7", Epoch: "JLmNQX4b1fYhVp0y6dGdJR", Seq: 123456, Active: 17, Capacity: 64, Status: StatusReady}, notes)
	list := make([]AttemptNote, 0, len(notes))
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, _, ok := DecodeNotes(data, list); !ok {
			b.Fatal("not notes")
		}
	}
}
