// Package schedule is the scheduler of Tokenbus: it takes requests from the bus as
// a member of a queue group, gives each to one agent, and is out of the way before
// the first byte of an answer. Any number of schedulers run at one time, all
// active, with no leader.
//
// A scheduler's view of the agents is a cache: what their beats and notes say,
// plus the dispatches that it made itself and has not heard back about (invariant
// 1). It can be wrong; an agent that is full refuses, and a refusal never ran, so
// the request goes to the next agent (invariants 2 and 4).
//
// The decision (package policy) and the waiting requests (package queue) are pure.
// This package is the shell around them: one mutex owns the state, handlers change
// it and publish, and nothing blocks.
package schedule
