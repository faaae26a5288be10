package bus

// API names one kind of request: the last token of its subject.
type API string

// The APIs that cross the bus.
const (
	Chat           API = "chat"
	Completions    API = "completions"
	Responses      API = "responses"
	Messages       API = "messages"
	CountTokens    API = "count_tokens"
	Embeddings     API = "embeddings"
	Rerank         API = "rerank"
	Score          API = "score"
	Pooling        API = "pooling"
	Classify       API = "classify"
	Tokenize       API = "tokenize"
	Detokenize     API = "detokenize"
	Transcriptions API = "transcriptions"
	Translations   API = "translations"
)

// Route is one HTTP path of an API, the same at the gateway and at the engine.
type Route struct {
	Path string
	API  API
}

// Routes is the allow-list: the only engine paths that a request can reach,
// whether it came by HTTP or by NATS. The first path of an API is its default.
// All are POST.
var Routes = []Route{
	{"/v1/chat/completions", Chat},
	{"/v1/completions", Completions},
	{"/v1/responses", Responses},
	{"/v1/messages", Messages},
	{"/v1/messages/count_tokens", CountTokens},
	{"/v1/embeddings", Embeddings},
	{"/v1/rerank", Rerank},
	{"/v2/rerank", Rerank},
	{"/rerank", Rerank},
	{"/v1/score", Score},
	{"/score", Score},
	{"/pooling", Pooling},
	{"/classify", Classify},
	{"/tokenize", Tokenize},
	{"/detokenize", Detokenize},
	{"/v1/audio/transcriptions", Transcriptions},
	{"/v1/audio/translations", Translations},
}

var defaultPath = func() map[API]string {
	m := make(map[API]string)
	for _, r := range Routes {
		if _, ok := m[r.API]; !ok {
			m[r.API] = r.Path
		}
	}
	return m
}()

// Known reports whether the API is one that crosses the bus.
func (a API) Known() bool { _, ok := defaultPath[a]; return ok }

// Multipart reports whether the body is a form that nobody but the engine reads.
func (a API) Multipart() bool { return a == Transcriptions || a == Translations }

// UsageOnRequest reports whether the engine streams a usage chunk only when the
// request asks for it with stream_options.
func (a API) UsageOnRequest() bool { return a == Chat || a == Completions }

// EnginePath gives the engine path of a request: path itself when it is one of
// the API's routes, its default path when path is empty, and false otherwise.
func (a API) EnginePath(path string) (string, bool) {
	if path == "" {
		p, ok := defaultPath[a]
		return p, ok
	}
	for _, r := range Routes {
		if r.API == a && r.Path == path {
			return path, true
		}
	}
	return "", false
}
