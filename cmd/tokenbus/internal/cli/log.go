package cli

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
)

var (
	logLevels = map[string]slog.Level{
		"debug": slog.LevelDebug,
		"info":  slog.LevelInfo,
		"warn":  slog.LevelWarn,
		"error": slog.LevelError,
	}
	logFormats = []string{"auto", "text", "json"}
)

// NewLogger returns a logger that writes one line a record to w, with the time
// in UTC. The level is debug, info, warn or error. The format is text, json, or
// auto, which is text if isTerminal and JSON otherwise.
func NewLogger(w io.Writer, level, format string, isTerminal bool) (*slog.Logger, error) {
	threshold, ok := logLevels[level]
	if !ok {
		names := []string{"debug", "info", "warn", "error"}
		return nil, fmt.Errorf("--log-level: %q is none of %s%s", level, strings.Join(names, ", "), didYouMean(level, names))
	}
	if !slices.Contains(logFormats, format) {
		return nil, fmt.Errorf("--log-format: %q is none of %s%s", format, strings.Join(logFormats, ", "), didYouMean(format, logFormats))
	}
	options := &slog.HandlerOptions{Level: threshold, ReplaceAttr: utcTime}
	if format == "text" || format == "auto" && isTerminal {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}

// utcTime moves the record's time to UTC and leaves all other attributes alone.
func utcTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	}
	return a
}

// IsTerminal reports whether f is a character device, which is what a terminal
// is and a pipe or a regular file is not.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
