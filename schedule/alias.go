package schedule

import (
	"maps"
	"strconv"
	"time"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/schedule/policy"
)

// resolve turns an alias into one of the models behind it, and the ticket's policy into
// that of the model. Requests of one session get the same model as long as weights and
// fleet stay.
func (s *Scheduler) resolve(t *ticket) *bus.Error {
	t.copies = t.policy.Shadow
	if len(t.policy.Split) == 0 {
		return nil
	}
	key := t.session
	if key == 0 {
		key = s.random()
	}
	model := t.policy.Pick(key, t.tenant, func(m string) bool { return s.fleet.models[m] != nil })
	if !bus.Rename(t.m.Header, model) {
		return &bus.Error{
			Reason: bus.ReasonBadRequest, Param: "model",
			Message: "the model `" + t.model + "` is an alias, and the request does not let its model be changed",
			Hint:    "name one of the models behind it, such as " + model,
		}
	}
	s.counters.Aliased++
	if t.alias == "" {
		t.alias = t.model
	}
	t.model = model
	t.m.Header[bus.HeaderAlias], t.m.Header[bus.HeaderModel] = []string{t.alias}, []string{model}
	t.policy = s.policies.For(model)
	if t.copies == nil {
		t.copies = t.policy.Shadow
	}
	return nil
}

// copyTo sends a copy of a request to the shadow of its policy, if its share wants it
// and there is room now. Nothing of the copy comes back to the caller. s.mu is held.
func (s *Scheduler) copyTo(t *ticket, now time.Time) {
	sh := t.copies
	if sh == nil || t.hops > 0 || t.tries > 0 || float64(s.random()>>11)/(1<<53) >= sh.Share {
		return
	}
	h := maps.Clone(t.m.Header)
	for _, name := range []string{bus.HeaderWindow, bus.HeaderAlias, bus.HeaderStrip, bus.HeaderPredicted} {
		delete(h, name)
	}
	// The body of a request that is pulled is with the caller only until it is answered.
	if bus.FirstHeader(h, bus.HeaderBody) != "" || !bus.Rename(h, sh.Model) {
		s.counters.Unshadowed++
		return
	}
	p := s.fleet.models[sh.Model]
	if p == nil || s.othersWait(sh.Model) {
		s.counters.Unshadowed++
		return
	}
	c := &ticket{
		id: s.ticketID(), m: &bus.Msg{Header: h, Data: t.m.Data}, model: sh.Model, shadow: true, api: t.api, came: now, until: t.until,
		policy: s.policies.For(sh.Model), session: t.session, tokens: t.tokens, tenant: t.tenant, band: t.band,
	}
	for _, v := range p.views {
		v.look(now)
	}
	req := policy.Request{API: apiBit(t.api), Session: t.session, Random: s.random()}
	i, verdict := s.pool.Decide(&c.policy.Steps[0], &req, p.list)
	if verdict != policy.Chosen {
		s.counters.Unshadowed++
		return
	}
	s.counters.Shadows++
	h[bus.HeaderShadow], h[bus.HeaderModel] = []string{"1"}, []string{sh.Model}
	c.reply = s.holder.Nowhere(c.id)
	h[bus.HeaderReply] = []string{c.reply}
	s.tickets[c.id] = c
	s.dispatch(c, p.views[i], c.policy.Name+"/shadow/"+c.policy.Steps[0].Strategy.String(), now)
	c.m.Data = nil // it is never sent again, and only what is counted may be kept (invariant 10)
}

// ticketID makes a new one.
func (s *Scheduler) ticketID() string {
	s.next++
	return strconv.FormatUint(s.next, 36)
}
