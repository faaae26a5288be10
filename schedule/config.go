package schedule

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is what a scheduler needs.
type Config struct {
	AcceptTimeout time.Duration // for an agent to accept or refuse a dispatch
	QueueTimeout  time.Duration // longest wait in a queue
	HoldTimeout   time.Duration // how long requests wait for a model that was served before and that no agent serves now; 0: not at all
	QueueDepth    int           // requests that may wait for one model
	MaxBytes      int           // of request bodies held, in queues and until their first byte
	MaxTries      int           // tries of one request at one step of its policy, refusals not counted
	PrefixEntries int           // of the prefix index: one block of a prompt at one agent, about 100 bytes
	Decisions     int           // records of decisions kept for tokenbus explain
	PolicyFiles   bool          // the caller applies policies from files, and those on the bus are not looked at
	Version       string        // of the binary
	Log           *slog.Logger
}

// Default is the configuration that everything not set falls back to.
func Default() Config {
	return Config{AcceptTimeout: 800 * time.Millisecond, QueueTimeout: time.Minute, QueueDepth: 4096, MaxBytes: 512 << 20, MaxTries: 3, PrefixEntries: 1 << 20, Decisions: 2048}
}

// Validate reports everything that is wrong, each with the flag that sets it.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, flag string, v any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s: %v is not %s", flag, v, want))
		}
	}
	check(c.AcceptTimeout >= 10*time.Millisecond && c.AcceptTimeout < 2*time.Second, "accept-timeout", c.AcceptTimeout, "between 10ms and 2s")
	check(c.QueueTimeout > 0, "queue-timeout", c.QueueTimeout, "positive")
	check(c.HoldTimeout >= 0, "hold-timeout", c.HoldTimeout, "0 or more")
	check(c.QueueDepth >= 0, "queue-depth", c.QueueDepth, "0 or more")
	check(c.MaxBytes > 0, "max-bytes", c.MaxBytes, "positive")
	check(c.MaxTries >= 1 && c.MaxTries <= 100, "max-tries", c.MaxTries, "between 1 and 100")
	check(c.PrefixEntries >= 1 && c.PrefixEntries <= 1<<28, "prefix-entries", c.PrefixEntries, "between 1 and 268435456")
	check(c.Decisions >= 0 && c.Decisions <= 1<<20, "decisions", c.Decisions, "between 0 and 1048576")
	return errors.Join(errs...)
}
