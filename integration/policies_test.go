package integration

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule"
)

// applyLimit is how soon after it was put a policy must be in force.
const applyLimit = time.Second

// toPool is a policy that sends the requests for the model to the agents with a tag.
func toPool(tag string) string {
	return "models: [" + model + "]\nrouting_policy:\n  match: {tags: [" + tag + "]}\n  strategy: least-loaded\n"
}

// load sends requests until it is stopped, and counts where they go.
type load struct {
	*system
	failed  atomic.Int64
	mu      sync.Mutex
	answers map[string]int // by agent, of requests sent since the last reset
	round   int
	ending  atomic.Bool
	clients sync.WaitGroup
}

func startLoad(s *system) *load {
	l := &load{system: s, answers: make(map[string]int)}
	for range 8 {
		l.clients.Go(func() {
			for !l.ending.Load() {
				l.one()
			}
		})
	}
	return l
}

// end stops the load. It comes before the end of the test, which cancels requests.
func (l *load) end() {
	l.ending.Store(true)
	l.clients.Wait()
	if n := l.failed.Load(); n > 0 {
		l.t.Errorf("%d requests failed", n)
	}
}

func (l *load) one() {
	l.mu.Lock()
	round := l.round
	l.mu.Unlock()
	a := l.post("/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hello"}],"max_tokens":4}`)
	if a.status != http.StatusOK || a.err != nil {
		l.failed.Add(1)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if round == l.round {
		l.answers[a.header.Get("X-Tokenbus-Agent")]++
	}
}

// check waits for enough requests sent from now on, and fails if one does not go to
// the agent, or none of them if it is "both".
func (l *load) check(when, agent string) {
	l.t.Helper()
	l.mu.Lock()
	l.round++
	clear(l.answers)
	l.mu.Unlock()
	var a, b int
	eventually(l.t, 10*time.Second, "the load goes on "+when, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		a, b = l.answers["a"], l.answers["b"]
		return a+b >= 200
	})
	if agent == "both" && (a == 0 || b == 0) || agent == "a" && b > 0 || agent == "b" && a > 0 {
		l.t.Errorf("%s: %d requests went to a and %d to b, want %s", when, a, b, agent)
	}
}

// inForce waits until the scheduler goes by a revision.
func (l *load) inForce(revision uint64) {
	l.t.Helper()
	eventually(l.t, applyLimit, "the policy is in force", func() bool { return l.scheduler.Counters().PolicyVersion == revision })
}

// TestPolicyChanges: under load, policies take effect within a second and no request
// fails; what does not load changes nothing; an older text can be put back.
func TestPolicyChanges(t *testing.T) {
	s := start(t, func(o *options) { o.agent.Tags = []string{"one"} })
	cfg := agent.Default()
	cfg.ID, cfg.EngineURL, cfg.Version, cfg.Log, cfg.Tags = "b", s.engine.URL, "0.0.0", s.log, []string{"two"}
	b, err := agent.New(cfg, s.dial("agent b"))
	check(t, err)
	s.agents = append(s.agents, b)
	s.run("agent b", b.Run)
	s.ready()

	operator := s.dial("operator")
	put := func(name, text string) uint64 {
		t.Helper()
		revision, err := operator.PutPolicy(t.Context(), name, text)
		check(t, err)
		return revision
	}
	l := startLoad(s)
	defer l.end()
	l.check("without a policy", "both")
	first := put("chat", toPool("two"))
	l.inForce(first)
	l.check("with a policy", "b")
	l.inForce(put("chat", toPool("one")))
	l.check("with another", "a")

	before := s.scheduler.Counters()
	kv, err := operator.Bucket(t.Context(), bus.BucketConfig)
	check(t, err)
	_, err = kv.PutString(t.Context(), "policy.bad", "modles: [x]\n")
	check(t, err)
	eventually(t, applyLimit, "the broken policy was seen", func() bool { return s.scheduler.Counters().PolicyRejected == before.PolicyRejected+1 })
	if v := s.scheduler.Counters().PolicyVersion; v != before.PolicyVersion {
		t.Errorf("version %d is in force beside a broken policy, want %d", v, before.PolicyVersion)
	}
	l.check("beside a broken policy", "a")
	rejected := put("chat", toPool("two"))
	eventually(t, applyLimit, "the change beside it was seen", func() bool { return s.scheduler.Counters().PolicyRejected == before.PolicyRejected+2 })
	l.check("after a change beside a broken policy", "a")
	check(t, operator.DeletePolicy(t.Context(), "bad"))
	l.inForce(rejected)
	l.check("after the broken policy was deleted", "b")

	history, err := operator.PolicyHistory(t.Context(), "chat")
	check(t, err)
	for _, h := range history {
		if h.Text == toPool("one") {
			l.inForce(put("chat", h.Text))
		}
	}
	l.check("after an older text was put back", "a")
	check(t, operator.DeletePolicy(t.Context(), "chat"))
	eventually(t, applyLimit, "no policy is in force", func() bool { return s.scheduler.Counters().PolicyVersion == 0 })
	l.check("after all policies were deleted", "both")
}

// TestPolicyAtStart: a scheduler that starts goes by the policies on the bus from its
// first request on.
func TestPolicyAtStart(t *testing.T) {
	s := start(t, func(o *options) { o.noScheduler = true })
	_, err := s.dial("operator").PutPolicy(t.Context(), "chat", toPool("nowhere"))
	check(t, err)
	cfg := schedule.Default()
	cfg.Version, cfg.Log = "0.0.0", s.log
	s.scheduler, err = schedule.New(cfg, s.dial("scheduler"))
	check(t, err)
	s.run("scheduler", s.scheduler.Run)
	eventually(t, 10*time.Second, "the scheduler refuses a request", func() bool {
		a := s.post("/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"hello"}]}`)
		if a.status == http.StatusOK {
			t.Fatal("a request was placed without regard to the policy")
		}
		return a.header.Get("X-Tokenbus-Reason") == string(bus.ReasonNoAgents)
	})
}
