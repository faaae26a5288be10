package bus_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tokenbus/tokenbus/bus"
)

func TestPlacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var batch []bus.Placement
		for range rapid.IntRange(0, 4).Draw(t, "placements") {
			batch = append(batch, bus.Placement{
				Agent: rapid.String().Draw(t, "agent"), Epoch: rapid.String().Draw(t, "epoch"),
				Prompt: rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "prompt"),
			})
		}
		b := bus.EncodePlacements(batch)
		if diff := cmp.Diff(batch, bus.DecodePlacements(b), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
		// A message that is cut gives what is whole.
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		if got := bus.DecodePlacements(b[:cut]); len(got) > len(batch) || cmp.Diff(batch[:len(got)], got, cmpopts.EquateEmpty()) != "" {
			t.Fatalf("cut at %d of %d: %v", cut, len(b), got)
		}
	})
}

func FuzzPlacements(f *testing.F) {
	f.Add(bus.EncodePlacements([]bus.Placement{{Agent: "a", Epoch: "e", Prompt: []uint64{1, 2}}}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(_ *testing.T, b []byte) { bus.DecodePlacements(b) })
}
