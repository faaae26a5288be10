package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// guarded are routes of a vLLM process that no gateway should let through.
// They do nothing here but count their hits, except for those below with a
// handler of their own.
var guarded = []string{
	"/pause", "/resume", "/is_paused", "/invocations", "/docs", "/redoc",
	"/openapi.json", "/reset_mm_cache", "/collective_rpc", "/server_info", "/start_profile", "/stop_profile",
}

func (s *Server) addRoutes() {
	s.routes = map[string]*route{}
	add := func(methods string, serve http.HandlerFunc, paths ...string) {
		for _, p := range paths {
			s.routes[p] = &route{methods: methods, serve: serve}
		}
	}
	infer := func(serve func(*call) *apiError, paths ...string) {
		for _, p := range paths {
			s.routes[p] = &route{methods: "POST", inference: true, serve: s.infer(serve)}
		}
	}
	add("GET", s.serveHealth, "/health")
	add("GET POST", s.serveHealth, "/ping")
	add("GET", s.serveVersion, "/version")
	add("GET", s.serveModels, "/v1/models")
	add("GET", s.serveMetrics, "/metrics")
	add("GET", s.serveLoad, "/load")
	add("GET POST", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, guarded...)
	add("POST", s.serveSleep, "/sleep")
	add("POST", s.serveWakeUp, "/wake_up")
	add("GET", s.serveIsSleeping, "/is_sleeping")
	add("POST", s.serveLoadAdapter, "/v1/load_lora_adapter")
	add("POST", s.serveUnloadAdapter, "/v1/unload_lora_adapter")
	add("POST", s.serveResetCache, "/reset_prefix_cache")
	add("POST", s.serveTokenize, "/tokenize")
	add("POST", s.serveDetokenize, "/detokenize")

	infer(s.serveChat, "/v1/chat/completions")
	infer(s.serveCompletions, "/v1/completions")
	infer(s.serveResponses, "/v1/responses")
	infer(s.serveMessages, "/v1/messages")
	infer(s.serveCountTokens, "/v1/messages/count_tokens")
	infer(s.serveEmbeddings, "/v1/embeddings")
	infer(s.servePooling, "/pooling")
	infer(s.serveClassify, "/classify")
	infer(s.serveScore, "/score", "/v1/score")
	infer(s.serveRerank, "/rerank", "/v1/rerank", "/v2/rerank")
	infer(s.serveAudio, "/v1/audio/transcriptions", "/v1/audio/translations")
}

func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	if s.sick(r) || s.isDead() {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"version":"`+jsonInner(s.cfg.Version)+`"}`))
}

func (s *Server) serveLoad(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	n := s.record.counts.InFlight
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, []byte(`{"server_load":`+strconv.Itoa(n)+`}`))
}

// serveModels lists the served models and the adapters.
func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	created := strconv.FormatInt(s.startAt, 10)
	b := []byte(`{"object":"list","data":[`)
	card := func(id, root, parent, length string) {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, `{"id":"`+jsonInner(id)+`","object":"model","created":`+created+`,"owned_by":"vllm","root":"`+
			jsonInner(root)+`","parent":`+parent+`,"max_model_len":`+length+`,"permission":[{"id":"modelperm-`+
			fmt.Sprintf("%016x", textSeed(s.cfg.Seed, s.startAt, id, 0))+`","object":"model_permission","created":`+created+
			`,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"allow_search_indices":false,`+
			`"allow_view":true,"allow_fine_tuning":false,"organization":"*","group":null,"is_blocking":false}]}`...)
	}
	for _, m := range s.cfg.Models {
		card(m, s.cfg.Models[0], "null", strconv.Itoa(s.cfg.MaxModelLen))
	}
	s.mu.Lock()
	for _, name := range s.adapterNames() {
		card(name, "/adapters/"+name, `"`+jsonInner(s.adapters[name])+`"`, "null")
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, append(b, `]}`...))
}

// adapterRequest is the body of the adapter routes.
type adapterRequest struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path"`
}

func (s *Server) readAdapter(w http.ResponseWriter, r *http.Request) (q adapterRequest, ok bool) {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q)
	if err == nil && q.Name != "" && !slices.Contains(s.cfg.Models, q.Name) {
		return q, true
	}
	s.answer(w, &apiError{http.StatusBadRequest, "InvalidUserInput", "'lora_name' must be provided.", ""})
	return q, false
}

func (s *Server) serveLoadAdapter(w http.ResponseWriter, r *http.Request) {
	q, ok := s.readAdapter(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	_, exists := s.adapters[q.Name]
	s.adapters[q.Name] = s.cfg.Models[0]
	s.mu.Unlock()
	if exists {
		s.answer(w, &apiError{http.StatusBadRequest, "InvalidUserInput",
			"The lora adapter '" + q.Name + "' has already been loaded.", ""})
		return
	}
	_, _ = io.WriteString(w, "Success: LoRA adapter '"+q.Name+"' added successfully.") // as vLLM, plain text
}

func (s *Server) serveUnloadAdapter(w http.ResponseWriter, r *http.Request) {
	q, ok := s.readAdapter(w, r)
	if !ok {
		return
	}
	s.mu.Lock()
	_, exists := s.adapters[q.Name]
	delete(s.adapters, q.Name)
	s.mu.Unlock()
	if !exists {
		s.answer(w, &apiError{http.StatusNotFound, "NotFoundError",
			"The lora adapter '" + q.Name + "' cannot be found.", ""})
		return
	}
	_, _ = io.WriteString(w, "Success: LoRA adapter '"+q.Name+"' removed successfully.") // as vLLM, plain text
}

func (s *Server) serveResetCache(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	if s.engine.cache != nil {
		s.engine.cache.reset()
	}
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
}

// readQuick reads and parses the body of a route that needs no engine.
func (s *Server) readQuick(w http.ResponseWriter, r *http.Request) (*request, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.cfg.MaxBodyBytes))
	if err != nil {
		s.answer(w, byStatus(http.StatusRequestEntityTooLarge))
		return nil, false
	}
	q, fault := parse(body)
	if fault != nil {
		s.answer(w, fault)
		return nil, false
	}
	return q, true
}

// serveTokenize counts by the simulation's rule. The ids are hashes: they tell
// tokens apart but cannot be turned back.
func (s *Server) serveTokenize(w http.ResponseWriter, r *http.Request) {
	q, ok := s.readQuick(w, r)
	if !ok {
		return
	}
	words := text(q.prompt)
	if q.messages != nil {
		prompt, _, _, err := chatPrompt(nil, q.messages)
		if err != nil {
			s.answer(w, invalid(err))
			return
		}
		words = prompt
	}
	tokens := pieces(words)
	b := []byte(`{"count":` + strconv.Itoa(len(tokens)) + `,"max_model_len":` + strconv.Itoa(s.cfg.MaxModelLen) + `,"tokens":[`)
	for i, t := range tokens {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, textSeed(0, 0, t, 0)%151936, 10)
	}
	writeJSON(w, http.StatusOK, append(b, `],"token_strs":null}`...))
}

// serveDetokenize spells token ids with the vocabulary.
func (s *Server) serveDetokenize(w http.ResponseWriter, r *http.Request) {
	q, ok := s.readQuick(w, r)
	if !ok {
		return
	}
	var b strings.Builder
	eachElement(q.raw["tokens"], func(id []byte) { b.WriteString(spell(id)) })
	writeJSON(w, http.StatusOK, []byte(`{"prompt":"`+jsonInner(b.String())+`"}`))
}
