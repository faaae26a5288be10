package simulate

import (
	"errors"
	"time"
)

// Model is what an engine of speed 1 does.
type Model struct {
	Slots       int           // sequences at one time
	PrefillBase time.Duration // of any prefill
	PrefillRate float64       // characters a second that are not cached
	StepBase    time.Duration // of one step of decoding
	StepEach    time.Duration // more for each sequence in it
	StepPrefill time.Duration // more while a prefill shares it
	CacheChars  int           // room of the prefix cache
	Spread      float64       // speeds lie between 1 - Spread and 1 + Spread
}

// DefaultModel is about what a small model does on one large GPU.
func DefaultModel() Model {
	return Model{
		Slots: 64, PrefillBase: 10 * time.Millisecond, PrefillRate: 40_000, StepBase: 12 * time.Millisecond,
		StepEach: 150 * time.Microsecond, StepPrefill: 10 * time.Millisecond, CacheChars: 1_000_000, Spread: 0.2,
	}
}

func (m Model) validate() error {
	switch {
	case m.Slots <= 0 || m.PrefillRate <= 0 || m.StepBase <= 0 || m.CacheChars < engineBlock:
		return errors.New("an engine needs slots, a rate of prefills, a time of steps and a cache")
	case m.PrefillBase < 0 || m.StepEach < 0 || m.StepPrefill < 0 || m.Spread < 0 || m.Spread >= 1:
		return errors.New("the times of an engine are 0 or more, its spread is from 0 to less than 1")
	}
	return nil
}

// prefill is the time of a prefill.
func (m *Model) prefill(chars int) time.Duration {
	return m.PrefillBase + time.Duration(float64(chars)/m.PrefillRate*float64(time.Second))
}

// step is the time of one step of decoding, in seconds.
func (m *Model) step(batch, prefill float64) float64 {
	return m.StepBase.Seconds() + m.StepEach.Seconds()*batch + m.StepPrefill.Seconds()*prefill
}

// Capacity is the most requests a second that an engine of speed 1 can take for long:
// the largest rate λ for which
//
//	ρ = λ · p < 1                  prefills go one after the other
//	λ · (w + p + n · s) ≤ Slots    a request holds its slot until it has ended
//
// p is the time of the mean prefill, and w = p · ρ / (1 - ρ) how long a request waits
// for its own, about (as in an M/M/1 queue). n is the mean number of tokens of an
// answer and s the time of a step: the batch is b = λ · n · s on average and a prefill
// runs for the share ρ of the time, so
//
//	s = StepBase + StepEach · b + StepPrefill · ρ
//
// prefillChars are the characters that are not cached, on average.
func (m Model) Capacity(prefillChars, answerTokens float64) float64 {
	p := m.prefill(int(prefillChars)).Seconds()
	fits := func(rate float64) bool {
		busy := rate * p
		room := 1 - m.StepEach.Seconds()*rate*answerTokens
		if busy >= 1 || room <= 0 {
			return false
		}
		step := m.step(0, busy) / room
		return rate*(p*busy/(1-busy)+p+answerTokens*step) <= float64(m.Slots)
	}
	lo, hi := 0.0, 1.0
	for fits(hi) && hi < 1e9 {
		hi *= 2
	}
	for range 60 {
		if mid := (lo + hi) / 2; fits(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
