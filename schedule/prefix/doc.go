// Package prefix remembers which agent has computed which prompts, so that a prompt
// with the same beginning can go where its beginning is in the engine's cache.
//
// A prompt is known by the chained hashes of its blocks (package peek): two prompts
// that share their first n blocks share their first n hashes. For each agent the
// index is a model of the engine's own cache: the blocks of the prompts that were
// sent there, of which the least recently used leave when the room is used up. It
// is a guess and may be wrong in both directions; it costs a prefill, never an
// answer.
//
// The package is pure: no clock, no bus, no lock.
package prefix
