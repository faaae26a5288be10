package chaos

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent/sim"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/bus/bustest"
)

var requestNumber = regexp.MustCompile(`request-(\d+)-`)

// served gives the numbers of the requests in the order in which an engine got them.
func served(e *engine) []int {
	var all []int
	for _, r := range e.sim.Record().Requests {
		if m := requestNumber.FindSubmatch(r.Body); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			all = append(all, n)
		}
	}
	return all
}

// trioOfSchedulers is a fleet of three schedulers, each with a client that uses it
// alone, in front of one engine that answers each request after a while.
func trioOfSchedulers(t *testing.T, slots int, takes time.Duration) (*fleet, *engine, []*bus.Client) {
	t.Helper()
	f := newFleet(t)
	e := f.addEngine(engineConfig())
	if _, err := e.sim.Inject(sim.Fault{Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Pieces: []sim.Piece{{DelayMS: takes.Milliseconds(), Text: "{}"}}}); err != nil {
		t.Fatal(err)
	}
	f.addAgent("a", e, slots)
	var clients []*bus.Client
	for range 3 {
		s := f.addScheduler()
		g := f.addGateway()
		g.Client().UseScheduler(s.Take)
		clients = append(clients, g.Client())
	}
	time.Sleep(2 * time.Second)
	return f, e, clients
}

func call(ctx context.Context, c *bus.Client, n int, edit func(*bus.Request)) error {
	r := bus.Request{API: bus.Chat, Body: []byte(requestBody(n, false))}
	if edit != nil {
		edit(&r)
	}
	_, err := c.Call(ctx, r)
	return err
}

// TestQueueOrder: whichever scheduler a request comes to, there is one order
// (acceptance 20), it is kept when a scheduler dies, and nothing is lost.
func TestQueueOrder(t *testing.T) {
	for name, kill := range map[string]bool{"three schedulers": false, "one is killed": true} {
		t.Run(name, func(t *testing.T) {
			bustest.Bubble(t, func(t *testing.T) {
				f, e, clients := trioOfSchedulers(t, 1, 100*time.Millisecond)
				defer f.close()
				const requests = 40
				var wg sync.WaitGroup
				for i := range requests {
					time.Sleep(20 * time.Millisecond)
					wg.Go(func() {
						c := clients[i%3]
						if kill {
							c = clients[1+i%2] // those of the schedulers that live
						}
						if err := call(t.Context(), c, i, nil); err != nil {
							t.Errorf("request %d: %v", i, err)
						}
					})
					if kill && i == requests/2 {
						f.schedulers[0].kill()
					}
				}
				wg.Wait()
				order := served(e)
				if !kill && !slices.IsSorted(order) {
					t.Errorf("served in the order %v", order)
				}
				slices.Sort(order)
				if len(order) != requests || len(slices.Compact(order)) != requests {
					t.Errorf("%d requests were served", len(order))
				}
				f.settle()
			})
		})
	}
}

// TestQueueBands: a request of a higher band is served before all of the lower ones
// that wait, whichever scheduler it comes to.
func TestQueueBands(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f, e, clients := trioOfSchedulers(t, 1, 100*time.Millisecond)
		defer f.close()
		var wg sync.WaitGroup
		bands := []int{0, 0, -1, 0, 5, -1, 5, 0, 9, 0}
		for i, band := range bands {
			time.Sleep(5 * time.Millisecond)
			wg.Go(func() {
				if err := call(t.Context(), clients[i%3], i, func(r *bus.Request) { r.Priority = band }); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if got, want := fmt.Sprint(served(e)), "[0 8 4 6 1 3 7 9 2 5]"; got != want {
			t.Errorf("served %s, want %s", got, want)
		}
		f.settle()
	})
}

// TestQueueTenants: while tenants compete, each gets its share of tokens, however
// many requests it sends and however large they are.
func TestQueueTenants(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f, e, clients := trioOfSchedulers(t, 2, 50*time.Millisecond)
		defer f.close()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		// Three tenants: many small requests, few large ones, and something between.
		sizes := []int64{100, 1000, 300}
		counts := []int{600, 60, 200}
		n := 0
		for tenant, size := range sizes {
			for range counts[tenant] {
				body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"request-%d-"}]}`, size, tenant)
				c := clients[n%3]
				n++
				wg.Go(func() {
					_ = call(ctx, c, 0, func(r *bus.Request) { r.Tenant, r.Body = fmt.Sprint("tenant-", tenant), []byte(body) })
				})
			}
		}
		// Some 480 of 860 requests, so that a tenth of a share is more than the few large
		// requests that are under way, or came before the queue had its owner.
		time.Sleep(12 * time.Second)
		var tokens [3]int64
		total := int64(0)
		for _, tenant := range served(e) {
			tokens[tenant] += sizes[tenant]
			total += sizes[tenant]
		}
		for tenant, got := range tokens {
			if share := float64(got) / float64(total); share < 0.9/3 || share > 1.1/3 {
				t.Errorf("tenant %d got %.1f %% of the tokens: %v", tenant, 100*share, tokens)
			}
		}
		cancel()
		wg.Wait()
		f.settle()
	})
}

// TestQueueWorkConserving: no slot is free for long while requests wait, and never are
// more of them taken than there are (invariant 2), with three schedulers and agents
// that come and go.
func TestQueueWorkConserving(t *testing.T) {
	bustest.Bubble(t, func(t *testing.T) {
		f, e, clients := trioOfSchedulers(t, 3, 70*time.Millisecond)
		defer f.close()
		other := f.addEngine(engineConfig())
		if _, err := other.sim.Inject(sim.Fault{Kind: sim.Script, Status: 200, Headers: map[string]string{"Content-Type": "application/json"}, Pieces: []sim.Piece{{DelayMS: 30, Text: "{}"}}}); err != nil {
			t.Fatal(err)
		}
		f.addAgent("b", other, 2)
		time.Sleep(time.Second) // it claims its id
		var wg sync.WaitGroup
		for i := range 400 {
			wg.Go(func() {
				if err := call(t.Context(), clients[i%3], i, nil); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		idle, waiting := 0, true
		for waiting {
			time.Sleep(10*time.Millisecond + 500*time.Microsecond)
			a, b := e.sim.Counts().InFlight, other.sim.Counts().InFlight
			if a > 3 || b > 2 {
				t.Errorf("invariant 2: %d and %d under way", a, b)
			}
			n := 0
			for _, s := range f.schedulers {
				n += s.Waiting()
			}
			waiting = n > 0
			if n > 20 && a+b < 5 {
				idle++
			} else {
				idle = 0
			}
			if idle == 20 {
				t.Errorf("for 200 ms, %d and %d slots of 3 and 2 are taken while %d requests wait", a, b, n)
			}
		}
		wg.Wait()
		f.settle()
	})
}
