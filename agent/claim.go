package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// ErrHeld tells that another process serves under the agent's id.
var ErrHeld = errors.New("the agent id is taken")

// How an id is claimed.
const (
	claimWait  = 250 * time.Millisecond // for the holder of an id, or another newcomer, to object
	claimEvery = 5 * time.Second        // between looks for a process that took the id over
)

// claim is what a process says to the others that want its id.
type claim struct {
	Epoch   string    `json:"epoch"`
	Started time.Time `json:"started"`
	Machine string    `json:"machine,omitempty"`
	Region  string    `json:"region,omitempty"`
	Holds   bool      `json:"holds"` // it serves; otherwise it wants to start
}

// before orders two processes that want one id, in one way for both.
func (c claim) before(o claim) bool {
	if !c.Started.Equal(o.Started) {
		return c.Started.Before(o.Started)
	}
	return c.Epoch < o.Epoch
}

// claimed is the agent's side of the claims to its id.
type claimed struct {
	mu    sync.Mutex
	holds bool
	other claim // to which a newcomer gave way
	gave  bool
	lost  context.CancelCauseFunc
}

func (a *Agent) ownClaim(holds bool) claim {
	a.mu.Lock()
	started := a.record.Started
	a.mu.Unlock()
	return claim{Epoch: a.epoch, Started: started, Machine: a.cfg.Machine, Region: a.cfg.Region, Holds: holds}
}

// claim asks whether a process serves under the agent's id, and holds the id from then
// on. Of two newcomers the one that started first gets it. It fails with ErrHeld. lost
// is called with that error if another process turns out to have taken the id over: one
// that started later, while this one could not be reached. release must be called after
// use.
func (a *Agent) claim(ctx context.Context, lost context.CancelCauseFunc) (release func(), err error) {
	a.claimed.lost = lost
	sub, err := a.link.Subscribe(a.link.Control, bus.ClaimSubject(a.cfg.ID), "", a.hearClaim)
	if err != nil {
		return nil, err
	}
	release = func() { _ = sub.Unsubscribe() }
	if err := a.askClaim(ctx); err != nil {
		release()
		return nil, err
	}
	a.claimed.mu.Lock()
	defer a.claimed.mu.Unlock()
	if a.claimed.gave {
		release()
		return nil, a.held(a.claimed.other)
	}
	a.claimed.holds = true
	return release, nil
}

// askClaim says the claim once the server hears this process, and gives the others time
// to object. A claim that nobody could hear is none.
func (a *Agent) askClaim(ctx context.Context) error {
	for {
		flush, cancel := context.WithTimeout(ctx, time.Second)
		err := a.link.Flush(flush)
		cancel()
		if err == nil {
			a.sayClaim()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(claimWait):
		}
		if err == nil {
			return nil
		}
	}
}

// held names the process that has the id.
func (a *Agent) held(by claim) error {
	var where strings.Builder
	for _, f := range [][2]string{{"machine", by.Machine}, {"region", by.Region}, {"epoch", by.Epoch}} {
		if f[1] != "" {
			fmt.Fprintf(&where, "%s %s, ", f[0], f[1])
		}
	}
	return fmt.Errorf("--id: %w: %q is served by another process (%ssince %s); give each agent an id of its own, or stop that one first",
		ErrHeld, a.cfg.ID, where.String(), by.Started.UTC().Format(time.RFC3339))
}

func (a *Agent) sayClaim() {
	a.claimed.mu.Lock()
	holds := a.claimed.holds
	a.claimed.mu.Unlock()
	a.link.PublishJSON(bus.ClaimSubject(a.cfg.ID), a.ownClaim(holds))
}

// hearClaim answers a claim to this id, or gives way to it.
func (a *Agent) hearClaim(m *bus.Msg) {
	var c claim
	if json.Unmarshal(m.Data, &c) != nil || c.Epoch == "" || c.Epoch == a.epoch {
		return
	}
	a.claimed.mu.Lock()
	own := a.ownClaim(a.claimed.holds)
	gives := false
	switch {
	case a.slots.leaving():
		// The id is free for whoever comes next.
		a.claimed.mu.Unlock()
		return
	case own.Holds && c.Holds:
		gives = own.before(c) // it was there unopposed: it took the id over
	case !own.Holds:
		gives = c.Holds || c.before(own)
	}
	if gives && !a.claimed.gave {
		a.claimed.gave, a.claimed.other = true, c
		if own.Holds {
			a.claimed.lost(a.held(c))
		}
	}
	a.claimed.mu.Unlock()
	if !gives && (own.Holds || !c.Holds) {
		a.link.PublishJSON(bus.ClaimSubject(a.cfg.ID), own)
	}
}

// keepClaim says at times that this process holds its id, so that two that lost sight
// of each other find out.
func (a *Agent) keepClaim(ctx context.Context) error {
	again := make(chan struct{}, 1)
	a.link.OnReconnect(func() { signal(again) })
	t := time.NewTicker(claimEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-t.C:
		}
		if !a.slots.leaving() {
			a.sayClaim()
		}
	}
}
