// Package bus is the wire contract of Tokenbus: the subjects, frames and
// documents that gateways, schedulers and agents exchange over NATS, both ends
// of the request protocol, the embedded NATS server, and the Go client for
// services that skip HTTP.
//
// # Life of a request
//
// A caller publishes the request on tb.req.<model>.<api> with a reply inbox. A
// scheduler picks an agent and publishes the same bytes on that agent's own
// subject, with the caller's inbox as the reply, so the answer never passes the
// scheduler. What follows depends on the caller:
//
//   - A bare caller (any NATS client) of a non-streaming request gets exactly one
//     message: status headers and the whole body. A bare caller of a streaming
//     request gets the engine's bytes as they come, then an empty message.
//   - A framed caller (this package's [Client], so also every gateway) says so
//     with the [HeaderWindow] header and gets frames: queued, accepted, head,
//     data, end. See [Kind].
//
// # Frames
//
// A frame is one message on the caller's inbox. Its payload is raw bytes of the
// answer and nothing else; what it is and where it stands in the stream is in
// its NATS reply subject, the way JetStream does for acknowledgements:
//
//	<control subject>.<kind>.<sequence>
//
// The control subject belongs to whoever holds the request at that moment (a
// scheduler while it is queued, the agent while it runs). The caller publishes
// ack, resend, cancel and ping below it. And because the frame carries a reply
// subject that its sender subscribes to, the NATS server itself tells the sender
// when nobody listens to the inbox any more.
//
// The sender keeps every frame that was not acknowledged, stops reading the
// engine when that window is full, and sends again from any sequence number on
// request, so that a reconnect in the middle of a stream loses and doubles
// nothing (invariant 6).
package bus
