package gateway

import (
	"encoding/json"
	"net/http"
	"slices"
	"sort"
	"strings"

	"github.com/tokenbus/tokenbus/bus"
)

// models gives the card of each model that some agent can serve now, as its
// engine wrote it, in the order of their ids. It asks nobody: beats are enough.
func (g *Gateway) models() (ids []string, cards map[string]json.RawMessage) {
	cards = make(map[string]json.RawMessage)
	for _, a := range g.fleet.Agents() {
		if a.Provider != "" {
			continue // used only where a policy says so
		}
		if a.Status != bus.StatusReady || a.EngineHealth != bus.HealthOK {
			continue
		}
		for _, m := range a.Models {
			if _, ok := cards[m.ID]; !ok && len(m.Card) > 0 {
				cards[m.ID] = m.Card
				ids = append(ids, m.ID)
			}
		}
	}
	for alias, models := range g.fleet.Aliases() {
		there := slices.ContainsFunc(models, func(m string) bool { return cards[m] != nil })
		if _, taken := cards[alias]; there && !taken {
			cards[alias] = aliasCard(alias, models)
			ids = append(ids, alias)
		}
	}
	sort.Strings(ids)
	return ids, cards
}

// aliasCard is the card of a name behind which there are several models.
func aliasCard(alias string, models []string) json.RawMessage {
	b, err := json.Marshal(struct {
		ID      string   `json:"id"`
		Object  string   `json:"object"`
		Created int64    `json:"created"`
		OwnedBy string   `json:"owned_by"`
		AliasOf []string `json:"alias_of"`
	}{alias, "model", 0, "tokenbus", models})
	if err != nil {
		return nil
	}
	return b
}

func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	requestID(w, r)
	ids, cards := g.models()
	list := struct {
		Object string            `json:"object"`
		Data   []json.RawMessage `json:"data"`
	}{"list", make([]json.RawMessage, 0, len(ids))}
	for _, id := range ids {
		list.Data = append(list.Data, cards[id])
	}
	writeJSON(w, http.StatusOK, list)
}

// getModel serves one card. Model ids may hold slashes, escaped or not.
func (g *Gateway) getModel(w http.ResponseWriter, r *http.Request) {
	reqID := requestID(w, r)
	id := strings.TrimPrefix(r.URL.Path, "/v1/models/")
	_, cards := g.models()
	card, ok := cards[id]
	if !ok {
		e := &bus.Error{Reason: bus.ReasonModelNotFound, Param: "model", Message: "The model `" + id + "` does not exist."}
		g.counters.rejected(e.Reason)
		writeError(w, openAI, reqID, e)
		return
	}
	writeJSON(w, http.StatusOK, card)
}

// health says that the process lives.
func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// ready says whether requests can be served: the bus is there, and at least one
// scheduler on it.
func (g *Gateway) ready(w http.ResponseWriter, _ *http.Request) {
	why := ""
	switch {
	case g.leaving.Load():
		why = "draining"
	case !g.link.Connected():
		why = "the bus can't be reached"
	case g.fleet.Schedulers() == 0:
		why = "no scheduler is on the bus"
	}
	if why != "" {
		w.Header()["Retry-After"] = []string{"1"}
		writeJSON(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": why})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

// Ready reports whether the gateway can serve requests.
func (g *Gateway) Ready() bool {
	return !g.leaving.Load() && g.link.Connected() && g.fleet.Schedulers() > 0
}

// Models are the ids of the models that can be served now.
func (g *Gateway) Models() []string { ids, _ := g.models(); return ids }

func writeJSON(w http.ResponseWriter, status int, doc any) {
	b, err := json.Marshal(doc)
	if err != nil {
		status, b = http.StatusInternalServerError, bus.Errorf(bus.ReasonInternal, "internal error").JSON()
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
