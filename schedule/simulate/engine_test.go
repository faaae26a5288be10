package simulate

import (
	"testing"
	"time"
)

// bench is one engine on its own.
type bench struct {
	clock clock
	engine
	order []int                 // of the ends
	at    map[int]time.Duration // of them
}

func newBench(m Model) *bench {
	b := &bench{at: make(map[int]time.Duration)}
	b.engine = engine{clock: &b.clock, model: &m, speed: 1, cache: newCache(m.CacheChars / engineBlock), changed: func() {}}
	b.ended = func(r *request) {
		b.order = append(b.order, r.id)
		b.at[r.id] = b.clock.now
	}
	return b
}

// send gives the engine a request whose prompt is text.
func (b *bench) send(id int, text []span, answer int) *request {
	all := append(append([]span{}, text...), span{uint64(1000 + id), answer * charsPerToken})
	r := &request{id: id, turn: &turn{answer: answer}, chars: length(text), blocks: blocks(all, engineSize)}
	r.promptBlocks = r.chars / engineBlock
	if !b.take(r) {
		return nil
	}
	return r
}

func (b *bench) run() {
	for b.clock.next() {
	}
}

// plain is a model whose times are easy to add.
func plain() Model {
	return Model{
		Slots: 2, PrefillBase: 10 * time.Millisecond, PrefillRate: 10_000, StepBase: 10 * time.Millisecond,
		StepEach: time.Millisecond, StepPrefill: 9 * time.Millisecond, CacheChars: 1 << 20,
	}
}

func about(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if d := got - want; d < -time.Microsecond || d > time.Microsecond {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestEngineTimes: a prefill takes its time, a token a step, and a step more beside
// another sequence or a prefill.
func TestEngineTimes(t *testing.T) {
	b := newBench(plain())
	r := b.send(1, []span{{1, 1000}}, 11)
	b.run()
	about(t, "first token", r.first, 110*time.Millisecond)
	about(t, "end", b.at[1], 110*time.Millisecond+10*11*time.Millisecond)

	b = newBench(plain())
	b.send(1, []span{{1, 1000}}, 101)
	second := b.send(2, []span{{2, 1000}}, 101)
	if b.send(3, []span{{3, 1000}}, 1) != nil {
		t.Error("the engine takes three requests in two slots")
	}
	b.run()
	// The second prefill waits for the first one. While it runs the first has 110/20
	// steps, then both have a step in 12 ms until the first has its last.
	about(t, "first token of the second", second.first, 220*time.Millisecond)
	first := 220*time.Millisecond + time.Duration((100-5.5)*12*float64(time.Millisecond))
	about(t, "end of the first", b.at[1], first)
	about(t, "end of the second", b.at[2], first+time.Duration(5.5*11*float64(time.Millisecond)))
}

// TestEngineCache: a prompt that begins as an earlier one with its answer is computed
// from where it differs, and nothing is cached before it is computed.
func TestEngineCache(t *testing.T) {
	b := newBench(plain())
	text := []span{{1, 1024}}
	b.send(1, text, 128)
	same := b.send(2, text, 128)
	b.run()
	if same.cached != 1024-charsPerToken {
		t.Errorf("of the same prompt %d characters are cached, want all but the last token", same.cached)
	}
	next := b.send(3, append(text, span{1001, 512}, span{3, 512}), 1)
	other := b.send(4, []span{{4, 1024}}, 1)
	b.run()
	if next.cached != 1024+512 {
		t.Errorf("of the next turn %d characters are cached, want those of the last prompt and its answer", next.cached)
	}
	if other.cached != 0 {
		t.Errorf("of another prompt %d characters are cached", other.cached)
	}
}

// TestCacheRoom: what was not used for longest leaves, the end of a prompt before its
// beginning.
func TestCacheRoom(t *testing.T) {
	c := newCache(4)
	c.put([]uint64{1, 2, 3})
	c.put([]uint64{4, 5})
	for _, want := range []struct {
		prompt []uint64
		held   int
	}{{[]uint64{1, 2, 3}, 2}, {[]uint64{4, 5}, 2}, {[]uint64{6}, 0}} {
		if n := c.held(want.prompt); n != want.held {
			t.Errorf("%d blocks of %v are held, want %d", n, want.prompt, want.held)
		}
	}
	c.put([]uint64{1})
	c.put([]uint64{7, 8})
	if c.held([]uint64{1}) != 1 || c.held([]uint64{7, 8}) != 2 || len(c.places) != 4 || len(c.blocks) > 6 {
		t.Errorf("after more: %v", c.places)
	}
}

// TestBlocks: prompts share the hashes of what they share, wherever their parts begin.
func TestBlocks(t *testing.T) {
	one := blocks([]span{{1, 700}, {2, 100}}, engineSize)
	two := blocks([]span{{1, 700}, {2, 100}, {3, 900}}, engineSize)
	three := blocks([]span{{1, 700}, {4, 900}}, engineSize)
	if len(one) != 3 || len(two) != 6 || len(three) != 6 {
		t.Fatalf("%d, %d and %d blocks", len(one), len(two), len(three))
	}
	for i := range one {
		if one[i] != two[i] {
			t.Errorf("block %d differs in the longer text", i)
		}
		if same := one[i] == three[i]; same != (i < 2) {
			t.Errorf("block %d of another text: same %t", i, same)
		}
	}
	if n := len(indexBlocks([]span{{1, 1 << 20}})); n == 0 || indexBlocks([]span{{1, 1 << 20}}).Bytes() > 1<<20 {
		t.Errorf("%d blocks of the index cover more than there is", n)
	}
}

// TestCapacity: the formula lies where the simulation begins to lag behind.
func TestCapacity(t *testing.T) {
	m := plain()
	m.Slots = 64
	if rate := m.Capacity(990, 1); rate < 8 || rate > 1/0.109 {
		t.Errorf("%.2f requests/s, want a little less than one prefill after the other", rate)
	}
	m.Slots = 1
	// One request at a time: 0.11 s of prefill, then 100 steps of at least 11 ms.
	if rate := m.Capacity(1000, 100); rate < 0.7 || rate > 1/1.2 {
		t.Errorf("%.2f requests/s, want about one in 1.2 s", rate)
	}
}

// TestClock: events come in the order of their times, at one time in that of their
// making.
func TestClock(t *testing.T) {
	var c clock
	var got []int
	for i := range 1000 {
		c.after(time.Duration(i*7919%10), func() { got = append(got, i*7919%10*1000+i) })
	}
	for c.next() {
	}
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			t.Fatalf("%d comes after %d", got[i], got[i-1])
		}
	}
	if len(got) != 1000 {
		t.Errorf("%d of 1000 events came", len(got))
	}
}
