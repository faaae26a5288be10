package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
)

// leaveBare sends a bare request on a connection of its own; the function that it
// gives closes the connection.
func (s *system) leaveBare(api bus.API, body, name string) (leave func()) {
	s.t.Helper()
	nc := s.bare()
	s.ask(nc, subject(api), body, nats.Header{"X-Sim-Script": {name}})
	check(s.t, nc.Flush())
	return nc.Close
}

// A bare caller can't say that it leaves: its connection is gone, and nobody
// listens to its inbox (invariant 8).
func TestCancelBare(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.sim.TokenInterval = 10 * time.Millisecond })
	// An agent gives callers time to come back after its own (re)connect.
	eventually(t, 5*time.Second, "the agent has been up for a while", func() bool { return time.Since(s.began) > 3500*time.Millisecond })
	phases, leave := make(map[string]string), make(map[string]func())
	before := s.generated()
	for api, path := range map[bus.API]string{bus.Chat: "/v1/chat/completions", bus.Responses: "/v1/responses", bus.Messages: "/v1/messages"} {
		for _, stream := range []bool{true, false} {
			for _, phase := range []string{"prefill", "decode"} {
				name := fmt.Sprintf("bare %s, stream %v, %s", api, stream, phase)
				if phase == "prefill" {
					s.inject(sim.Fault{Kind: sim.DelayFirstToken, Name: name, DelayMS: 60_000})
				}
				phases[name], leave[name] = phase, s.leaveBare(api, long(path, stream), name)
			}
		}
	}
	eventually(t, 5*time.Second, "the engine runs all and decodes", func() bool {
		return s.sim.Counts().Running == len(phases) && s.generated() != before
	})
	left := make(map[string]time.Time)
	for name := range phases {
		left[name] = time.Now()
		leave[name]()
	}
	for name, phase := range phases {
		s.aborted(name, left[name], phase)
	}
}

// A bare caller that leaves while its request waits: it is never run.
func TestCancelBareQueued(t *testing.T) {
	t.Parallel()
	s := start(t, func(o *options) { o.agent.Capacity = 1 })
	s.inject(sim.Fault{Kind: sim.DelayFirstToken, Name: "first", DelayMS: 60_000})
	first := s.leaver("/v1/chat/completions", chat(true, ""), "X-Sim-Script", "first")
	eventually(t, 5*time.Second, "the engine runs the first", func() bool { return s.sim.Counts().Running == 1 })
	leave := s.leaveBare(bus.Chat, `{"stream":true}`, "second")
	alsoLeave := s.leaveBare(bus.Chat, `{}`, "third")
	eventually(t, 5*time.Second, "they wait", func() bool { return s.scheduler.Waiting() == 2 })
	leave()
	alsoLeave()
	// Nothing runs for them, so nothing has to end within the second.
	eventually(t, 5*time.Second, "they wait no more", func() bool { return s.scheduler.Waiting() == 0 })
	first()
	s.rest()
	if n := s.sim.Counts().Received; n != 1 {
		t.Errorf("the engine saw %d requests, want 1", n)
	}
}

// The same holds beside an agent that has just started: nothing was lost that its
// callers could have to come back from.
func TestCancelBareYoungAgent(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.inject(sim.Fault{Kind: sim.DelayFirstToken, Name: "young", DelayMS: 60_000})
	leave := s.leaveBare(bus.Chat, chat(true, ""), "young")
	eventually(t, 5*time.Second, "the engine runs it", func() bool { return s.sim.Counts().Running == 1 })
	left := time.Now()
	leave()
	s.aborted("young", left, "prefill")
}
