package peek

import "math"

// DefaultOutput is the number of tokens that an answer is expected to have when the
// body declares no limit.
const DefaultOutput = 256

// ContentBytes is the size of the body's prompt as [Facts.Prefix] reads it: its
// sections, with a short mark in the place of each inline file. A body that has none
// of the known sections counts whole.
func (f *Facts) ContentBytes() int {
	total := 0
	for _, v := range f.sections {
		total += f.contentBytes(v)
	}
	if total == 0 {
		total = f.contentBytes(span{0, f.size})
	}
	return total
}

func (f *Facts) contentBytes(v span) int {
	n := v.to - v.from
	for _, in := range f.inlineIn(v) {
		n -= in.to - in.from - inlineMark
	}
	return n
}

// PromptTokens estimates the tokens of the prompt: one for each 3.2 bytes of
// content, rounded up, and at least one.
func (f *Facts) PromptTokens() int64 {
	return max((int64(f.ContentBytes())*5+15)/16, 1)
}

// OutputTokens estimates the tokens of all answers that the body asks for: its
// declared limit or [DefaultOutput] for each.
func (f *Facts) OutputTokens() int64 {
	each := int64(DefaultOutput)
	if f.MaxTokens >= 0 {
		each = min(f.MaxTokens, math.MaxInt32)
	}
	return each * int64(max(f.N, 1))
}
