// Package sim is a simulated vLLM server. It speaks vLLM's HTTP interface
// byte for byte where that matters to whoever stands in front of it, keeps
// time like a continuous batching engine, and computes nothing: the replies
// are words from a short list. It serves the demo, the tests, and the trying
// of policies without a GPU. Nothing it reports is a measurement of vLLM.
//
// Every response carries the header
//
//	X-Simulated-Engine: tokenbus-sim
//
// # The model of an engine
//
// A request waits in one first-in first-out queue until fewer than MaxNumSeqs
// requests run. Then it is prefilled, for
//
//	PrefillBase + PrefillPer1KChars × uncached prompt characters / 1000
//
// and decodes, one token a step. Prefills run side by side. All decoding
// requests share one step clock of TokenInterval and get their tokens at the
// same moment. The clock starts when a prefill ends in an otherwise idle
// engine, with that request's first token; so a lone request of n tokens takes
// its prefill and n-1 intervals. An engine without requests does nothing.
//
// A client that goes away aborts its request in any phase, and its slot is
// free at once. With no time configured at all (see [Instant]) replies are
// ready at once and the slot is held while the handler writes them.
//
// Where the simulation is simpler than vLLM:
//
//   - A token is four characters (CharsPerToken), in prompts rounded up.
//   - The chat template is "role: content\n" for each message. Tools are not
//     part of the prompt. Parts that are no text stand as a hash.
//   - The prefix cache holds prompts, not replies. Blocks count as held when
//     the prefill starts.
//   - One HTTP request takes one slot, however many choices or prompts it has.
//   - A reply's last token and its finish reason are separate chunks.
//   - Nothing is preempted; KV usage is a plain ratio.
//   - An engine that was put to sleep (/sleep) finishes what runs and lets the rest
//     wait until /wake_up.
//
// # Reply lengths
//
// With max_tokens (or its other names) a reply has exactly that length and
// ends with "length", unless Config.ReplyTokens ends it earlier with "stop",
// which ignore_eos prevents. Without a limit /v1/completions gives
// DefaultCompletionTokens and "length"; the chat-like routes give
// DefaultChatTokens and "stop", or with ignore_eos everything that fits.
//
// A request gets a tool call instead of text when it has tools and tool_choice
// is "required" or names one, or when the last user message contains "tool:".
//
// # Looking inside and breaking it
//
// [Server.Record], or GET /sim/record, tells what arrived and how it ended.
// [Server.Inject], or POST /sim/faults, installs a [Fault].
package sim
