// Package gateway is the HTTP edge of Tokenbus: OpenAI-compatible requests in, bus
// requests out, answers written as they come. It holds no routing state, so any
// number of gateways can run side by side.
//
// Only the routes in its table reach an engine; everything else is a 404. Bodies
// and answers pass byte for byte. A client that leaves is noticed in every phase
// and its work is cancelled at the engine. A stream that breaks ends with an error
// event in the dialect of its endpoint and never looks finished.
package gateway
