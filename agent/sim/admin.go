package sim

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// serveAdmin answers the routes below /sim/, which vLLM does not have. They
// need no key and no fault touches them.
//
//	GET    /sim/record              the Record; ?requests=n keeps the newest n entries
//	DELETE /sim/record              clear it
//	GET    /sim/faults              {"faults":[…]}
//	POST   /sim/faults              install one Fault, or a list of them: {"ids":[…]}
//	DELETE /sim/faults              remove all, or one with ?id=n
func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /sim/record":
		most := int64(s.cfg.KeepEntries)
		if n, err := strconv.ParseInt(r.URL.Query().Get("requests"), 10, 64); err == nil && n >= 0 {
			most = n
		}
		writeValue(w, s.snapshot(most))
	case "DELETE /sim/record":
		s.ClearRecord()
		w.WriteHeader(http.StatusNoContent)
	case "GET /sim/faults":
		writeValue(w, map[string]any{"faults": s.Faults()})
	case "POST /sim/faults":
		s.install(w, r)
	case "DELETE /sim/faults":
		id := int64(0)
		if v := r.URL.Query().Get("id"); v != "" {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 1 {
				s.answer(w, badRequest("id", "id %q is not a positive number.", v))
				return
			}
			id = n
		}
		s.Heal(id)
		w.WriteHeader(http.StatusNoContent)
	default:
		s.answer(w, byStatus(http.StatusNotFound))
	}
}

// install adds the faults of the body, all or none.
func (s *Server) install(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBodyBytes))
	if err != nil {
		s.answer(w, byStatus(http.StatusRequestEntityTooLarge))
		return
	}
	var faults []Fault
	if i := skipSpace(body, 0); i < len(body) && body[i] == '[' {
		err = json.Unmarshal(body, &faults)
	} else {
		faults = make([]Fault, 1)
		err = json.Unmarshal(body, &faults[0])
	}
	for _, f := range faults {
		err = errors.Join(err, f.Validate())
	}
	if err != nil {
		s.answer(w, badRequest("", "%v", err))
		return
	}
	ids := make([]int64, 0, len(faults))
	for _, f := range faults {
		id, err := s.Inject(f)
		if err != nil {
			s.answer(w, badRequest("", "%v", err))
			return
		}
		ids = append(ids, id)
	}
	writeValue(w, map[string]any{"ids": ids})
}

func writeValue(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, append(b, '\n'))
}
