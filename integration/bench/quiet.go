package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// quietFor is how long streams are quiet before their memory is measured: a process
// may give back what opening them took, and a proxy is given the same time.
const quietFor = 10 * time.Second

// quietTurn holds open many streams that had their first token and get no second
// one, and measures the memory that they take.
func quietTurn(ctx context.Context, b *bench, f *fleet, t *target) (values, error) {
	if len(t.procs) == 0 {
		return values{}, nil
	}
	// A few requests make what is made on first use.
	for range 8 {
		if err := f.await(ctx, b.options, t); err != nil {
			return nil, err
		}
	}
	if err := f.fault(ctx, http.MethodPost, `{"kind":"stall_after_tokens","tokens":1}`); err != nil {
		return nil, err
	}
	defer f.fault(context.WithoutCancel(ctx), http.MethodDelete, "") //nolint:errcheck // the fleet ends after it
	empty, err := t.footprint(ctx)
	if err != nil {
		return nil, err
	}
	full, errs := b.hold(ctx, t)
	b.noteFailures(t, errs)
	v := values{failed: float64(len(errs))}
	before := 0.0
	for i := range full {
		each := func(name string, after, before, unit float64) {
			v.addPart(name, t, i, (after-before)/unit/float64(b.quiet))
		}
		each(memoryEach, full[i].anonymous, empty[i].anonymous, 1024)
		each(residentEach, full[i].resident, empty[i].resident, 1024)
		if t.procs[i].admin != "" {
			each(stackEach, full[i].stacks, empty[i].stacks, 1024)
			each(goroutinesEach, full[i].goroutines, empty[i].goroutines, 1)
		}
		before += empty[i].goroutines
	}
	return v, f.leftovers(ctx, t, before, v)
}

// footprint is what a process holds. Those that do not tell have no stacks and no
// goroutines.
type footprint struct {
	memory
	stacks, goroutines float64 // bytes, count
}

// footprint gives that of each process of the target.
func (t *target) footprint(ctx context.Context) ([]footprint, error) {
	var all []footprint
	for _, p := range t.procs {
		m, err := memoryOf(p.pid())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.role, err)
		}
		x := footprint{memory: m}
		if p.admin != "" {
			page, err := p.metrics(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.role, err)
			}
			x.stacks, x.goroutines = page["go_memstats_stack_inuse_bytes"], page["go_goroutines"]
		}
		all = append(all, x)
	}
	return all, nil
}

// hold opens the streams, gives the footprint of the target while they are quiet, and
// closes them.
func (b *bench) hold(ctx context.Context, t *target) ([]footprint, []error) {
	client := newClient()
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body := chatBody(b.options, mostTokens, true)
	var (
		mu    sync.Mutex
		errs  []error
		wg    sync.WaitGroup
		ready = make(chan struct{}, b.quiet)
		slots = make(chan struct{}, 32)
	)
	for range b.quiet {
		wg.Go(func() {
			slots <- struct{}{}
			err := openQuiet(ctx, client, t.url, body, func() { <-slots; ready <- struct{}{} })
			if ctx.Err() == nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for range b.quiet {
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	b.steady(ctx, t)
	_ = sleep(ctx, max(b.window, quietFor))
	all, err := t.footprint(ctx)
	cancel()
	wg.Wait()
	if err != nil {
		errs = append(errs, err)
	}
	return all, errs
}

// openQuiet opens one stream, calls ready when it has its first bytes or failed, and
// reads on until ctx ends.
func openQuiet(ctx context.Context, client *http.Client, base string, body []byte, ready func()) error {
	once := sync.OnceFunc(ready)
	defer once()
	resp, err := postChat(ctx, client, base, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	buf := make([]byte, 1<<10)
	for {
		if _, err := resp.Body.Read(buf); err != nil {
			return err
		}
		once()
	}
}

// leftovers waits for everything of closed streams to go, for up to ten seconds, and
// adds what did not to v.
func (f *fleet) leftovers(ctx context.Context, t *target, before float64, v values) error {
	var left, after float64
	var failure error
	err := until(ctx, 10*time.Second, func() error {
		left, after = 0, 0
		if failure = f.idle(ctx); failure != nil {
			return failure
		}
		for _, p := range t.procs {
			if p.admin == "" {
				continue
			}
			var m map[string]float64
			if m, failure = p.metrics(ctx); failure != nil {
				return failure
			}
			left += m["tokenbus_gateway_active_requests"] + m["tokenbus_agent_active_requests"]
			after += m["go_goroutines"]
		}
		if left > 0 || after > before {
			return errors.New("not all are gone") // v says how many
		}
		return nil
	})
	if failure != nil {
		return errors.Join(failure, err)
	}
	if t.name == tokenbus {
		v[activeLeft], v[goroutinesLeft] = left, (after-before)/float64(len(t.procs))
	}
	return nil
}

// metrics reads the metrics page of a process; labels are cut off.
func (p *process) metrics(ctx context.Context) (map[string]float64, error) {
	resp, err := fetch(ctx, http.MethodGet, p.admin+"/metrics", "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, number, _ := strings.Cut(lines.Text(), " ")
		name, _, _ := strings.Cut(series, "{")
		if v, err := strconv.ParseFloat(number, 64); err == nil {
			all[name] += v
		}
	}
	return all, lines.Err()
}

// idle waits until the engine has no request under way but those that a probe may
// have left for a moment.
func (f *fleet) idle(ctx context.Context) error {
	return until(ctx, 5*time.Second, func() error {
		resp, err := fetch(ctx, http.MethodGet, f.url+"/load", "")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var load struct {
			Server int `json:"server_load"`
		}
		if err := json.NewDecoder(resp.Body).Decode(&load); err != nil {
			return err
		}
		if load.Server > 0 {
			return fmt.Errorf("the engine still has %d requests", load.Server)
		}
		return nil
	})
}

// fault installs a fault in the engine, or removes all.
func (f *fleet) fault(ctx context.Context, method, body string) error {
	resp, err := fetch(ctx, method, f.url+"/sim/faults", body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// fetch sends a small request. Every status but 2xx is an error; the caller closes
// the body.
func fetch(ctx context.Context, method, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s", method, url, resp.Status)
	}
	return resp, nil
}
