// Package chaos tests the whole of Tokenbus in virtual time: the real NATS server,
// real gateways, schedulers, agents and simulated engines in one bubble, with links
// that break, processes that die and clients that leave. The invariants of
// design.md are checked by number.
package chaos
