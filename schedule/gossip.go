package schedule

import (
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// gossip collects which prompts went where, for the other schedulers. They learn it a
// little late and may miss some: then a prompt goes to an agent that has to compute
// it again.
type gossip struct {
	batch []bus.Placement
	size  int
	lost  uint64
}

// Bounds of what waits for the next message.
const (
	gossipEvery = 20 * time.Millisecond
	gossipBytes = 256 << 10
)

// add notes a placement. What does not fit is dropped.
func (g *gossip) add(v *agentView, prompt []uint64) {
	n := 8*len(prompt) + len(v.record.ID) + len(v.record.Epoch) + 16
	if g.size+n > gossipBytes {
		g.lost++
		return
	}
	g.size += n
	g.batch = append(g.batch, bus.Placement{Agent: v.record.ID, Epoch: v.record.Epoch, Prompt: prompt})
}

// spread sends what there is.
func (s *Scheduler) spread() {
	s.mu.Lock()
	batch := s.gossip.batch
	s.gossip.batch, s.gossip.size = nil, 0
	s.mu.Unlock()
	if len(batch) > 0 {
		s.holder.Placed(batch)
	}
}

// placed takes what another scheduler says.
func (s *Scheduler) placed(batch []bus.Placement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range batch {
		if v := s.fleet.agents[p.Agent]; v != nil && v.record.Epoch == p.Epoch {
			s.index.Insert(v.slot, p.Prompt)
		}
	}
}
