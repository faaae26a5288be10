package sim

import (
	"net/http"
	"strconv"
	"time"
)

// sleepStates are the labels of vllm:engine_sleep_state by the level of the sleep.
var sleepStates = []string{"awake", "weights_offloaded", "discard_all"}

// serveSleep puts the engine to sleep, on level 1 or 2. What runs goes on, and nothing
// new is admitted until it wakes up; vLLM leaves open what becomes of either.
func (s *Server) serveSleep(w http.ResponseWriter, r *http.Request) {
	level := 1
	if text := r.URL.Query().Get("level"); text != "" {
		var err error
		if level, err = strconv.Atoi(text); err != nil || level < 1 || level >= len(sleepStates) {
			s.answer(w, &apiError{http.StatusBadRequest, "BadRequestError", "level must be 1 or 2", ""})
			return
		}
	}
	s.mu.Lock()
	s.engine.asleep = level
	if level == len(sleepStates)-1 && s.engine.cache != nil {
		s.engine.cache.reset()
	}
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveWakeUp(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	s.engine.asleep = 0
	s.engine.admit(time.Now())
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveIsSleeping(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	asleep := s.engine.asleep > 0
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, []byte(`{"is_sleeping":`+strconv.FormatBool(asleep)+`}`))
}

// sleepState shows the level, one series for each.
func (x *exposition) sleepState(level int) {
	const name = "vllm:engine_sleep_state"
	x.head(name, "gauge", "Engine sleep state; awake = 0 means engine is sleeping; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.")
	for i, state := range sleepStates {
		v := 0.0
		if i == level {
			v = 1
		}
		x.sample(name, `,sleep_state="`+state+`"`, v)
	}
}
