package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is what a gateway needs.
type Config struct {
	Listen       string        // host:port for clients
	BodyLimit    int64         // of a request body, in bytes
	Timeout      time.Duration // to the first byte of a stream, or the whole of another answer
	ReadTimeout  time.Duration // for a client to send its body
	IdleTimeout  time.Duration // of a connection without a request
	KeepAlive    time.Duration // between SSE comments while a stream is silent; 0: none
	DrainTimeout time.Duration // how long a stopping gateway lets its requests finish
	Version      string        // of the binary
	Log          *slog.Logger
}

// Default is the configuration that everything not set falls back to.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080", BodyLimit: 64 << 20, Timeout: 10 * time.Minute,
		ReadTimeout: 5 * time.Minute, IdleTimeout: 2 * time.Minute, DrainTimeout: 10 * time.Minute,
	}
}

// Validate reports everything that is wrong, each with the flag that sets it.
func (c Config) Validate() error {
	var errs []error
	if c.Listen == "" {
		errs = append(errs, errors.New("--listen: is missing"))
	}
	if c.BodyLimit < 1 {
		errs = append(errs, fmt.Errorf("--body-limit: %d is not positive", c.BodyLimit))
	}
	for flag, d := range map[string]time.Duration{
		"request-timeout": c.Timeout, "read-timeout": c.ReadTimeout, "idle-timeout": c.IdleTimeout, "drain-timeout": c.DrainTimeout,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s: %v is not positive", flag, d))
		}
	}
	if c.KeepAlive != 0 && c.KeepAlive < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--sse-keepalive: %v is shorter than 100ms; 0 turns it off", c.KeepAlive))
	}
	return errors.Join(errs...)
}
