package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Workload is a kind of traffic. Lengths are lognormal: a median, and the standard
// deviation of the logarithm.
type Workload struct {
	Name string
	What string // one sentence for reports

	Tenants    int
	TenantSkew float64 // exponent of the tenants' popularity, 0 is even
	Systems    int     // system prompts that are shared, 0 is none; each belongs to one tenant
	SystemSkew float64 // exponent of their popularity
	System     Length  // characters of a system prompt
	User       Length  // characters of a message
	Answer     Length  // tokens of an answer
	Turns      int     // of a conversation, on average
	Think      Length  // milliseconds from an answer to the next message
	Bursts     bool    // conversations begin in bursts
}

// Length is a lognormal distribution with a bound.
type Length struct {
	Median, Sigma float64
	Most          int
}

func (l Length) draw(r *rand.Rand) int {
	return min(max(int(math.Round(l.Median*math.Exp(l.Sigma*r.NormFloat64()))), 1), l.Most)
}

var workloads = []Workload{
	{
		Name: "multi-turn", What: "conversations with growing histories behind shared system prompts",
		Tenants: 8, Systems: 64, SystemSkew: 1, System: Length{6000, 0.5, 30_000}, User: Length{400, 0.8, 8000},
		Answer: Length{150, 0.6, 1000}, Turns: 6, Think: Length{4000, 0.7, 60_000},
	},
	{
		Name: "shared-prompt", What: "single requests behind shared system prompts",
		Tenants: 8, Systems: 256, SystemSkew: 1, System: Length{8000, 0.5, 40_000}, User: Length{500, 0.8, 8000},
		Answer: Length{120, 0.6, 1000}, Turns: 1,
	},
	{
		Name: "no-prefix", What: "single requests that share nothing",
		Tenants: 8, User: Length{6000, 0.5, 40_000}, Answer: Length{150, 0.6, 1000}, Turns: 1,
	},
	{
		Name: "bursts", What: "single requests behind shared system prompts, in bursts",
		Tenants: 8, Systems: 256, SystemSkew: 1, System: Length{8000, 0.5, 40_000}, User: Length{500, 0.8, 8000},
		Answer: Length{120, 0.6, 1000}, Turns: 1, Bursts: true,
	},
	{
		Name: "skewed-tenants", What: "single requests behind the tenants' own system prompts; the largest tenant sends about a third",
		Tenants: 16, TenantSkew: 1, Systems: 256, SystemSkew: 0.8, System: Length{6000, 0.5, 30_000}, User: Length{800, 0.8, 8000},
		Answer: Length{150, 0.6, 1000}, Turns: 1,
	},
	{
		Name: "long-tail", What: "single requests that share nothing, few of them very long",
		Tenants: 8, User: Length{3000, 1.3, 120_000}, Answer: Length{120, 1.1, 3000}, Turns: 1,
	},
}

// Workloads are the names of all workloads.
func Workloads() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	return names
}

func workload(name string) (Workload, error) {
	for _, w := range workloads {
		if w.Name == name {
			return w, nil
		}
	}
	return Workload{}, fmt.Errorf("the workload %q does not exist; it is one of %v", name, Workloads())
}

// turn is one request of a conversation: a message and its answer.
type turn struct {
	think  time.Duration // since the answer before
	prompt int           // spans of the text that are its prompt
	chars  int           // of the prompt
	answer int           // tokens
}

// conversation is a text that grows: its system prompt, then messages and answers.
type conversation struct {
	at      float64 // beginning, in mean times between two conversations
	tenant  int
	session uint64
	text    []span
	turns   []turn
}

// traffic is what one run sends.
type traffic struct {
	workload      Workload
	conversations []conversation
	requests      int
	chars, answer float64 // of a request, on average
}

// generate makes the traffic of a workload.
func generate(w Workload, seed uint64, requests int) *traffic {
	r := rand.New(rand.NewPCG(seed, trafficStream))
	t := &traffic{workload: w}
	tenants := ranks(w.Tenants, w.TenantSkew)
	systems := make([][]span, w.Tenants) // of each tenant, the popular first
	for i := range w.Systems {
		systems[i%w.Tenants] = append(systems[i%w.Tenants], span{r.Uint64(), w.System.draw(r)})
	}
	popular := ranks((w.Systems+w.Tenants-1)/w.Tenants, w.SystemSkew)
	at := 0.0
	for t.requests < requests {
		at += r.ExpFloat64()
		c := conversation{at: at, tenant: tenants(r), session: r.Uint64() | 1}
		if own := systems[c.tenant]; len(own) > 0 {
			c.text = append(c.text, own[popular(r)%len(own)])
		}
		// Geometric, with the mean that the workload asks for.
		for more := true; more && t.requests < requests; more = r.Float64() >= 1/float64(w.Turns) {
			c.turns = append(c.turns, c.next(w, r))
			t.requests++
			t.chars += float64(c.turns[len(c.turns)-1].chars)
			t.answer += float64(c.turns[len(c.turns)-1].answer)
		}
		t.conversations = append(t.conversations, c)
	}
	t.chars /= float64(t.requests)
	t.answer /= float64(t.requests)
	return t
}

// next makes the next turn.
func (c *conversation) next(w Workload, r *rand.Rand) turn {
	c.text = append(c.text, span{r.Uint64(), w.User.draw(r)})
	t := turn{prompt: len(c.text), chars: length(c.text), answer: w.Answer.draw(r)}
	if len(c.turns) > 0 {
		t.think = time.Duration(w.Think.draw(r)) * time.Millisecond
	}
	c.text = append(c.text, span{r.Uint64(), t.answer * charsPerToken})
	return t
}

// ranks draws numbers below n, of which the i-th is as likely as 1/(i+1)^skew.
func ranks(n int, skew float64) func(*rand.Rand) int {
	sums, sum := make([]float64, n), 0.0
	for i := range n {
		sum += math.Pow(float64(i+1), -skew)
		sums[i] = sum
	}
	return func(r *rand.Rand) int {
		i, _ := slices.BinarySearch(sums, r.Float64()*sum)
		return min(i, n-1)
	}
}

// begins gives when each conversation begins if requests come at a rate a second.
func (t *traffic) begins(seed uint64, rate float64) []time.Duration {
	each := float64(t.requests) / float64(len(t.conversations)) / rate // seconds between two
	real := func(s float64) float64 { return s }
	if t.workload.Bursts {
		real = bursts(seed)
	}
	var list []time.Duration
	for i := range t.conversations {
		list = append(list, time.Duration(real(t.conversations[i].at*each)*float64(time.Second)))
	}
	return list
}

// What bursts are: for some seconds many times as much as for some seconds between.
// On average it is 1.
const (
	burstOn, burstRate = 3.0, 2.5
	burstOff, quiet    = 9.0, 0.5
)

// bursts bends time, so that what comes evenly comes in bursts. The times that it is
// called with must not go back.
func bursts(seed uint64) func(float64) float64 {
	r := rand.New(rand.NewPCG(seed, burstStream))
	work, at, rate, left := 0.0, 0.0, quiet, burstOff*r.ExpFloat64()
	return func(s float64) float64 {
		for s-work > left*rate {
			work += left * rate
			at += left
			if rate == quiet {
				rate, left = burstRate, burstOn*r.ExpFloat64()
			} else {
				rate, left = quiet, burstOff*r.ExpFloat64()
			}
		}
		d := (s - work) / rate
		work, at, left = s, at+d, left-d
		return at
	}
}
