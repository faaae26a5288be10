// Command conversations measures what a policy makes of the engines' prefix caches:
//
//	go run ./integration/conversations
//
// It builds the binary, starts four simulated engines with prefix caching and
// tokenbus up in front of them, each a real process, and lets 160 users talk: each
// conversation has one of 120 system prompts of 6,000 characters and six turns, with
// pauses of 1.5 s on average. Each strategy gets the same conversations, from the
// seed, on fresh processes. It prints the part of the prompt tokens that engines took
// from their caches, by their own count; the time to the first token; and how evenly
// requests were spread. The bound is the same load on one engine with four times the
// room and slots.
//
// The engines are simulations: no number here is a measurement of vLLM.
package main
