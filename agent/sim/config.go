package sim

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// CharsPerToken is the simulation's whole tokenizer: one token is this many
// characters (Unicode code points), rounded up. Every generated token has
// exactly this many characters too, so counting a reply again gives the number
// of tokens that were generated.
const CharsPerToken = 4

// Config describes one simulated engine. The zero value is not usable: start
// from [Default] and change what matters. A zero duration is meaningful (the
// phase takes no time), so New fills nothing in.
type Config struct {
	// Models are the served model ids, all names of the one simulated model.
	// The first is the default and the model_name label of the metrics.
	Models []string `yaml:"models"`
	// Adapters are LoRA ids and the served model each belongs to; they are
	// listed by /v1/models with that "parent".
	Adapters map[string]string `yaml:"adapters"`

	// MaxModelLen bounds prompt plus reply, in tokens.
	MaxModelLen int `yaml:"max_model_len"`
	// MaxNumSeqs bounds the requests that run at once; the rest wait.
	MaxNumSeqs int `yaml:"max_num_seqs"`

	// PrefillBase is the fixed part of a prefill.
	PrefillBase time.Duration `yaml:"prefill_base"`
	// PrefillPer1KChars is the time for each 1000 prompt characters that the
	// prefix cache does not hold.
	PrefillPer1KChars time.Duration `yaml:"prefill_per_1k_chars"`
	// TokenInterval is one decode step, shared by every decoding request. Zero
	// means that a reply is ready as soon as its prefill ends.
	TokenInterval time.Duration `yaml:"token_interval"`

	// DefaultCompletionTokens is the reply length of /v1/completions when the
	// request sets none.
	DefaultCompletionTokens int `yaml:"default_completion_tokens"`
	// DefaultChatTokens is the reply length of the chat-like routes when the
	// request sets none; such a reply ends with "stop".
	DefaultChatTokens int `yaml:"default_chat_tokens"`
	// ReplyTokens is the length at which the simulated model ends a reply by
	// itself ("stop") although more was allowed, unless the request sets
	// ignore_eos. Zero means never: an explicit limit is always used up.
	ReplyTokens int `yaml:"reply_tokens"`
	// EmbeddingDim is the length of an embedding when the request names none.
	EmbeddingDim int `yaml:"embedding_dim"`

	// PrefixCache turns automatic prefix caching on.
	PrefixCache bool `yaml:"prefix_cache"`
	// PrefixCacheChars is the room of the prefix cache, in characters; the
	// least recently used blocks leave first.
	PrefixCacheChars int `yaml:"prefix_cache_chars"`
	// BlockChars is one cache block, in characters: a multiple of
	// CharsPerToken.
	BlockChars int `yaml:"block_chars"`

	// APIKey, when set, is demanded as a bearer token below /v1, which is all
	// that vLLM protects.
	APIKey string `yaml:"api_key"`
	// Seed varies the generated text. The text is a function of this seed, the
	// request's seed, the prompt and the choice.
	Seed uint64 `yaml:"seed"`
	// Version is the vLLM version reported at /version.
	Version string `yaml:"version"`
	// LegacyMetrics adds the series names of older vLLM releases.
	LegacyMetrics bool `yaml:"legacy_metrics"`

	// MaxBodyBytes bounds a request body; larger ones are answered 413.
	MaxBodyBytes int64 `yaml:"max_body_bytes"`
	// KeepEntries bounds the request entries of the record.
	KeepEntries int `yaml:"keep_entries"`
	// KeepRequests is for how many of the newest entries headers and body are
	// kept too.
	KeepRequests int `yaml:"keep_requests"`
	// KeepBodyBytes bounds each kept body; hash and length are always of the
	// whole body.
	KeepBodyBytes int `yaml:"keep_body_bytes"`

	// Logger receives a line at start and end of Run; nil means silence.
	Logger *slog.Logger `yaml:"-"`
}

// Default returns the configuration every caller starts from.
func Default() Config {
	return Config{
		Models:                  []string{"sim-model"},
		MaxModelLen:             32768,
		MaxNumSeqs:              64,
		PrefillBase:             5 * time.Millisecond,
		PrefillPer1KChars:       10 * time.Millisecond,
		TokenInterval:           20 * time.Millisecond,
		DefaultCompletionTokens: 16,
		DefaultChatTokens:       64,
		EmbeddingDim:            384,
		PrefixCache:             true,
		PrefixCacheChars:        4 << 20,
		BlockChars:              16 * CharsPerToken,
		Version:                 "0.11.2",
		MaxBodyBytes:            256 << 20,
		KeepEntries:             4096,
		KeepRequests:            256,
		KeepBodyBytes:           64 << 10,
	}
}

// Instant returns a configuration whose replies take no time at all, for
// benchmarks of what stands in front of the engine.
func Instant() Config {
	c := Default()
	c.PrefillBase, c.PrefillPer1KChars, c.TokenInterval = 0, 0, 0
	c.PrefixCache = false
	return c
}

// Validate reports every problem of the configuration at once, each naming the
// field and its flag.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		flag := "--" + strings.ReplaceAll(field, "_", "-")
		errs = append(errs, fmt.Errorf("%s (%s): %s", field, flag, fmt.Sprintf(format, args...)))
	}
	if len(c.Models) == 0 {
		bad("models", "name at least one served model")
	}
	seen := map[string]bool{}
	for _, m := range c.Models {
		if m == "" || seen[m] {
			bad("models", "%q is empty or named twice", m)
		}
		seen[m] = true
	}
	for id, parent := range c.Adapters {
		if id == "" || seen[id] {
			bad("adapters", "%q is empty or is also a served model", id)
		}
		if !seen[parent] {
			bad("adapters", "parent %q of %q is not a served model", parent, id)
		}
	}
	for _, v := range []struct {
		field string
		value int64
		least int64
	}{
		{"max_model_len", int64(c.MaxModelLen), 1},
		{"max_num_seqs", int64(c.MaxNumSeqs), 1},
		{"prefill_base", int64(c.PrefillBase), 0},
		{"prefill_per_1k_chars", int64(c.PrefillPer1KChars), 0},
		{"token_interval", int64(c.TokenInterval), 0},
		{"default_completion_tokens", int64(c.DefaultCompletionTokens), 1},
		{"default_chat_tokens", int64(c.DefaultChatTokens), 1},
		{"reply_tokens", int64(c.ReplyTokens), 0},
		{"embedding_dim", int64(c.EmbeddingDim), 1},
		{"max_body_bytes", c.MaxBodyBytes, 1},
		{"keep_entries", int64(c.KeepEntries), 1},
		{"keep_requests", int64(c.KeepRequests), 0},
		{"keep_body_bytes", int64(c.KeepBodyBytes), 0},
	} {
		if v.value < v.least {
			bad(v.field, "%d is below %d", v.value, v.least)
		}
	}
	if c.BlockChars < CharsPerToken || c.BlockChars%CharsPerToken != 0 {
		bad("block_chars", "%d is not a positive multiple of %d", c.BlockChars, CharsPerToken)
	}
	if c.PrefixCacheChars < c.BlockChars {
		bad("prefix_cache_chars", "%d holds no block of %d characters", c.PrefixCacheChars, c.BlockChars)
	}
	if c.Version == "" {
		bad("version", "name the vLLM version to report")
	}
	return errors.Join(errs...)
}
