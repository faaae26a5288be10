package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// mask stands for a secret wherever one would be printed.
const mask = "****"

// Secret is a string that prints as ****: with every verb of fmt, in JSON, YAML
// and log/slog. An empty one prints as nothing, so that "not set" is visible.
// The convention for flags is a pair, --engine-key and --engine-key-file; see
// [ResolveSecret].
type Secret string

// Reveal returns the secret itself, for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

// String implements [fmt.Stringer].
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// Format implements [fmt.Formatter]: every verb prints the same.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText implements [encoding.TextMarshaler], which JSON and YAML use.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements [slog.LogValuer].
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// ResolveSecret returns the secret that was given either as a value or as a
// file to read; space around the file's content does not count. The name is the
// flag without dashes in front, "engine-key"; the file's flag is the same with
// -file. Neither given is the empty secret.
func ResolveSecret(name string, value Secret, file string) (Secret, error) {
	if file == "" {
		return value, nil
	}
	if value != "" {
		return "", fmt.Errorf("--%s and --%s-file are both set; keep one", name, name)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read --%s-file: %w", name, err)
	}
	secret := Secret(strings.TrimSpace(string(data)))
	if secret == "" {
		return "", fmt.Errorf("--%s-file: %s is empty", name, file)
	}
	return secret, nil
}
