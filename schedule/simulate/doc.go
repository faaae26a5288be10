// Package simulate runs the decision core of the scheduler in virtual time: the real
// strategies (package policy), the real prefix index (package prefix) and the real
// fair queue (package queue), in front of engines that are models. No number that it
// gives is a measurement of vLLM; what it compares are strategies under one and the
// same traffic.
//
// # Engines
//
// An engine has slots, as many as it runs sequences at one time. Prefills go one
// after the other, in the order of their coming, each a fixed time plus a time for
// every character that is not in the engine's prefix cache. Sequences behind their
// prefill get one token a step, all of them in the same step; a step takes longer the
// more sequences run, and longer still while a prefill shares it. The prefix cache is
// the truth: blocks of what the engine really computed, of which the least recently
// used leave. The scheduler does not see it and guesses with its own index. Engines
// differ in speed, and the scheduler is not told.
//
// # Schedulers
//
// A scheduler sees what it would see on the bus: notes of agents that take a request,
// beats a moment after a request ended, signals once a second. Several schedulers
// each have a view and an index of their own; they hear of each other's placements a
// moment late, and who has to wait does so at one of them.
//
// # Traffic
//
// A workload is a list of conversations, made before the run from the seed, so that
// all strategies get the same ones. The turns of a conversation come one after the
// other: the next some time after the answer to the last. Load is a share of what the
// fleet can take; see [Model.Capacity], which is given the characters that remain to be
// computed when least-loaded places the requests.
//
// A run has one goroutine, one queue of events and no clock: the same configuration
// gives the same result.
package simulate
