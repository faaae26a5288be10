// Package integration tests the whole of Tokenbus through its public surface, over
// real TCP: official SDKs and plain HTTP against the gateway, the plain NATS
// protocol against the bus, and a simulated vLLM that records what reached it.
//
// Each test starts one system: an embedded NATS server, one simulated engine, an
// agent beside it, a scheduler and a gateway. When the test ends every count of
// every part must be back to zero (invariant 3 of design.md).
//
// Package chaos below does the same in virtual time, with parts that die.
package integration
