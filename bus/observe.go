package bus

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Reasons are all reasons that an error can have, in the order of their names: the
// values that a metric's label may take.
func Reasons() []Reason { return slices.Sorted(maps.Keys(reasons)) }

// Started is when the call was made.
func (call *Call) Started() time.Time { return call.started }

// Accepted reports whether an agent has the request, or had it when the call ended.
func (call *Call) Accepted() bool {
	call.mu.Lock()
	defer call.mu.Unlock()
	at := call.phase
	if at == over {
		at = call.reached
	}
	return at >= accepted || call.head != nil
}

// repaired notes that the next frame is here, which ends a gap. call.mu is held.
func (call *Call) repaired() {
	if call.gap {
		call.gap = false
		call.c.stats.repaired.Add(1)
	}
}

// Serves reports whether an agent that was heard within GoneAfter has the model.
func (f *Fleet) Serves(model string) bool {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.agents {
		if now.Sub(a.at) >= GoneAfter {
			continue
		}
		for i := range a.record.Models {
			if a.record.Models[i].ID == model {
				return true
			}
		}
	}
	return false
}

// RoundTrip measures how long a message takes to the server and back, on the first
// data connection, behind what is buffered there. ctx must have a deadline.
func (l *Link) RoundTrip(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := l.Data[0].FlushWithContext(ctx); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// Reconnects is how often connections of the link came back, in all.
func (l *Link) Reconnects() uint64 {
	var n uint64
	for _, nc := range l.conns() {
		n += nc.Stats().Reconnects
	}
	return n
}

// ServerStats is what an embedded NATS server says of itself.
type ServerStats struct {
	Connections, Subscriptions, Routes, Leafs int
	SlowConsumers                             uint64 // connections cut because they did not read, since the start
	InMessages, OutMessages                   uint64 // of clients, since the start
	InBytes, OutBytes                         uint64
	JetStream                                 *JetStreamStats // nil if the server has none
}

// JetStreamStats is what a server's JetStream uses of what it may use.
type JetStreamStats struct {
	MemoryBytes, StorageBytes           uint64
	MemoryLimitBytes, StorageLimitBytes uint64
	APIRequests, APIErrors              uint64
	Streams, Consumers, Messages        uint64
}

// Stats asks the server.
func (s *Server) Stats() (ServerStats, error) {
	v, err := s.ns.Varz(nil)
	if err != nil {
		return ServerStats{}, err
	}
	out := ServerStats{
		Connections: v.Connections, Subscriptions: int(v.Subscriptions), Routes: v.Routes, Leafs: v.Leafs,
		SlowConsumers: uint64(max(v.SlowConsumers, 0)),
		InMessages:    uint64(max(v.InMsgs, 0)), OutMessages: uint64(max(v.OutMsgs, 0)),
		InBytes: uint64(max(v.InBytes, 0)), OutBytes: uint64(max(v.OutBytes, 0)),
	}
	js, err := s.ns.Jsz(nil)
	if err != nil || js.Disabled {
		return out, nil //nolint:nilerr // a server without JetStream has no statistics of it
	}
	out.JetStream = &JetStreamStats{
		MemoryBytes: js.Memory, StorageBytes: js.Store,
		MemoryLimitBytes: uint64(max(js.Config.MaxMemory, 0)), StorageLimitBytes: uint64(max(js.Config.MaxStore, 0)),
		APIRequests: js.API.Total, APIErrors: js.API.Errors,
		Streams: uint64(js.Streams), Consumers: uint64(js.Consumers), Messages: js.Messages,
	}
	return out, nil
}
