// Package agent is the part of Tokenbus that sits beside one inference engine. It
// dials out to the bus, says what the engine serves and how much room it has,
// accepts or refuses each dispatch before the engine sees anything, calls the
// engine, and streams the answer straight to the caller's inbox.
//
// An agent owns the truth about its engine (invariant 1): the number of active
// requests is counted here and nowhere else, and it is never above the capacity
// (invariant 2). A slot is taken when a request is accepted and given back once,
// when its last byte has left or it failed or was cancelled (invariant 3).
//
// The bytes of requests and answers pass untouched (invariant 7). Two edits exist:
// those that the caller's side computed and named, and the removal of a usage
// chunk that was asked for in order to meter and not by the caller.
package agent
