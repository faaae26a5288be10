package bus

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is where an agent stands in its life.
type Status string

// The statuses of an agent.
const (
	StatusStarting Status = "starting" // the engine has not answered yet
	StatusReady    Status = "ready"
	StatusCordoned Status = "cordoned" // takes nothing new, as an operator ordered
	StatusDraining Status = "draining" // finishes what it has, takes nothing new, on the way out
	StatusGone     Status = "gone"     // the last thing that an agent says
)

// Health is what an agent knows of its engine.
type Health string

// The conditions of an engine. Only one that is well gets requests.
const (
	HealthOK           Health = "ok"
	HealthStarting     Health = "starting"     // it has not answered yet, or loads its model
	HealthDown         Health = "down"         // it refuses connections, or says that it is ill
	HealthAsleep       Health = "asleep"       // it was put to sleep and keeps no cache
	HealthUnresponsive Health = "unresponsive" // it takes connections and does not answer
)

// Condition is what an operator reads of an agent in one word: what it was ordered to
// do, or else what ails it. silent is how long nothing was heard of it.
func (r *Record) Condition(silent time.Duration) string {
	switch {
	case silent >= StaleAfter:
		return "unreachable"
	case r.Status == StatusDraining, r.Status == StatusCordoned, r.Status == StatusGone:
		return string(r.Status)
	case r.EngineHealth == HealthDown, r.EngineHealth == HealthAsleep, r.EngineHealth == HealthUnresponsive:
		return "engine " + string(r.EngineHealth)
	case r.EngineHealth != HealthOK, r.Status != StatusReady:
		return "starting"
	}
	return "ready"
}

// Model is one model that an agent serves.
type Model struct {
	ID          string          `json:"id"`
	Parent      string          `json:"parent,omitempty"` // of an adapter
	MaxModelLen int             `json:"max_model_len,omitempty"`
	Card        json.RawMessage `json:"card,omitempty"` // the engine's own entry of /v1/models
}

// Record is what an agent says of itself: the value of its key in TB_AGENTS, and
// the payload of its beats. Between two full beats an agent may send short ones,
// which hold only the fields of State.
type Record struct {
	State
	Models         []Model      `json:"models,omitempty"`
	Engine         string       `json:"engine,omitempty"`
	EngineVersion  string       `json:"engine_version,omitempty"`
	APIs           []API        `json:"apis,omitempty"`            // that the engine serves; absent: it depends on the model, and the engine refuses by itself
	EngineCapacity int          `json:"engine_capacity,omitempty"` // requests at one time that the engine states
	EngineHealth   Health       `json:"engine_health,omitempty"`
	EngineReason   string       `json:"engine_reason,omitempty"` // why the engine is not well, in words
	Order          *Order       `json:"order,omitempty"`         // that holds for the agent, if one wants something
	FullCapacity   int          `json:"full_capacity,omitempty"` // while the capacity still grows to it, after a start
	Version        string       `json:"version,omitempty"`
	Region         string       `json:"region,omitempty"`
	Machine        string       `json:"machine,omitempty"`
	Organization   string       `json:"organization,omitempty"`
	Tags           []string     `json:"tags,omitempty"`
	GPUModel       string       `json:"gpu_model,omitempty"`
	Counters       *AgentCounts `json:"counters,omitempty"`
	Latencies      *Latencies   `json:"latencies,omitempty"`
	Provider       string       `json:"provider,omitempty"` // name of the outside provider behind the agent; used only where a policy says so
	// Signals are measurements of the engine, the agent and the host, by the name of
	// the gate that looks at them. What is unknown is absent.
	Signals        map[string]float64 `json:"signals,omitempty"`
	SignalAgeMS    int64              `json:"signal_age_ms,omitempty"`    // of those of the engine, when the agent said this
	CacheTokens    int64              `json:"cache_tokens,omitempty"`     // room of the engine's prefix cache, in tokens
	CacheBlockSize int                `json:"cache_block_size,omitempty"` // tokens of one of its blocks
	PrefixCaching  *bool              `json:"prefix_caching,omitempty"`   // whether the engine keeps the prompts of requests that ended
	Hardware       *Hardware          `json:"hardware,omitempty"`
	Started        time.Time          `json:"started,omitzero"`
	Seen           time.Time          `json:"seen,omitzero"` // when the agent said this, by its own clock
}

// State is the part of a record that changes with every request.
type State struct {
	ID       string `json:"id"`
	Epoch    string `json:"epoch"`
	Seq      uint64 `json:"seq"` // grows with each change within an epoch
	Status   Status `json:"status"`
	Active   int    `json:"active"`
	Capacity int    `json:"capacity"`
	Tokens   int64  `json:"tokens,omitempty"` // of the active requests: prompts and expected output, estimated
	Full     bool   `json:"full"`             // the whole record follows, not only these fields
}

// Usage is what the engine counted for one request, in tokens.
type Usage struct {
	Prompt     int64
	Completion int64
	Cached     int64
}

func (u Usage) String() string { return fmt.Sprintf("%d %d %d", u.Prompt, u.Completion, u.Cached) }

func parseUsage(s string) (Usage, bool) {
	var u Usage
	if s == "" {
		return u, false
	}
	if _, err := fmt.Sscanf(s, "%d %d %d", &u.Prompt, &u.Completion, &u.Cached); err != nil {
		return Usage{}, false
	}
	return u, true
}
