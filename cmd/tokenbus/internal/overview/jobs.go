package overview

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tokenbus/tokenbus/bus"
)

// askAtOnce bounds the agents that are asked at one time.
const askAtOnce = 16

// InFlight are the requests that agents have, the oldest first.
type InFlight struct {
	Jobs    []bus.Job `json:"jobs"`
	Omitted int       `json:"omitted"` // more than are named
	Failed  []string  `json:"failed"`  // agents that did not answer
}

// Jobs asks one agent, or all that are heard, for their requests.
func Jobs(ctx context.Context, link *bus.Link, agent string) (InFlight, error) {
	out := InFlight{Jobs: []bus.Job{}, Failed: []string{}}
	if agent != "" {
		var jobs bus.Jobs
		if err := link.Command(ctx, agent, "jobs", nil, &jobs); err != nil {
			return out, err
		}
		out.Jobs, out.Omitted = append(out.Jobs, jobs.Jobs...), jobs.Omitted
		return out, nil
	}
	ids, err := live(ctx, link)
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(askAtOnce)
	for _, id := range ids {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			var jobs bus.Jobs
			err := link.Command(ctx, id, "jobs", nil, &jobs)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.Failed = append(out.Failed, id)
				return nil //nolint:nilerr // it is named
			}
			out.Jobs, out.Omitted = append(out.Jobs, jobs.Jobs...), out.Omitted+jobs.Omitted
			return nil
		})
	}
	_ = g.Wait()
	slices.Sort(out.Failed)
	slices.SortFunc(out.Jobs, func(a, b bus.Job) int {
		return cmp.Or(cmp.Compare(b.ElapsedMS, a.ElapsedMS), cmp.Compare(a.Attempt, b.Attempt))
	})
	return out, nil
}

// live are the ids of the agents that beat.
func live(ctx context.Context, link *bus.Link) ([]string, error) {
	fleet, err := Watch(ctx, link)
	if err != nil {
		return nil, err
	}
	defer fleet.Close()
	var ids []string
	for _, r := range fleet.Agents() {
		ids = append(ids, r.ID)
	}
	return ids, nil
}
