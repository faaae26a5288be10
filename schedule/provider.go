package schedule

import (
	"slices"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// An outside provider is an agent like the others, beside an engine that belongs to
// somebody else. It is never found by the steps of a policy: it is listed under a name
// of its own, which only fallback_provider leads to, and which is no model id.

// providerKey is where the agents of a provider are listed that serve a model of it.
func providerKey(provider, model string) string { return "\x00" + provider + "\x00" + model }

// listKey is where an agent is listed for a model.
func listKey(r *bus.Record, model string) string {
	if r.Provider == "" {
		return model
	}
	return providerKey(r.Provider, model)
}

// speaks are the APIs that a provider has. Requests are passed on as they are, not
// translated.
var speaks = map[string][]bus.API{
	"openai":    {bus.Chat, bus.Completions, bus.Responses, bus.Embeddings},
	"anthropic": {bus.Messages, bus.CountTokens},
}

// providerStep ranks the agents of a provider.
var providerStep = policy.Default().For("").Steps[0]

// provide sends a ticket to the fallback provider of its policy, if it has one that
// can take it now, and reports whether it did. why says what is in the way, "" if the
// policy has none.
func (s *Scheduler) provide(t *ticket, now time.Time) (done bool, why string) {
	p := t.policy.Provider
	if p == nil || t.provided {
		return false, ""
	}
	if !slices.Contains(speaks[p.Engine], t.api) {
		return false, "the fallback provider " + p.Engine + " does not have the API " + string(t.api) + ", and requests are not translated"
	}
	agents := s.fleet.models[providerKey(p.Engine, p.Model)]
	if agents == nil {
		return false, "no agent stands before the fallback provider " + p.Engine + " for its model " + p.Model
	}
	for _, v := range agents.views {
		v.look(now)
	}
	i, verdict := s.pool.Decide(&providerStep, &policy.Request{API: apiBit(t.api), Failed: t.excluded}, agents.list)
	s.explainStep(t, "fallback_provider", p.Engine, verdict, i, agents.list, now)
	if i < 0 {
		return false, "the fallback provider " + p.Engine + " can't take the request: " + string(verdict)
	}
	if !bus.Rename(t.m.Header, p.Model) {
		return false, "the body does not let its model be changed for the fallback provider"
	}
	t.provided, t.prefix = true, nil
	t.m.Header[bus.HeaderModel] = []string{p.Model}
	delete(t.m.Header, bus.HeaderFirstByte)
	delete(t.m.Header, bus.HeaderAlias) // the answer comes as the provider gives it
	s.counters.Provided++
	s.link.PublishJSON(bus.EventSubject("provider", t.model), Provided{
		Request: bus.FirstHeader(t.m.Header, bus.HeaderID), Model: t.model, Provider: p.Engine, As: p.Model, Agent: agents.views[i].record.ID, Time: now,
	})
	s.dispatch(t, agents.views[i], t.policy.Name+"/fallback_provider/"+p.Engine, now)
	return true, ""
}

// Provided is the event that says that a request goes to an outside provider.
type Provided struct {
	Request  string    `json:"request"`
	Model    string    `json:"model"`
	Provider string    `json:"provider"`
	As       string    `json:"as"` // the provider's model
	Agent    string    `json:"agent"`
	Time     time.Time `json:"time"`
}
