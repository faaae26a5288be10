package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestNewLogger(t *testing.T) {
	const (
		asText = "time=2026-01-02T03:04:05.000Z level=INFO msg=hello requestID=7\n"
		asJSON = `{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"hello","requestID":7}` + "\n"
	)
	for name, tc := range map[string]struct {
		level, format string
		terminal      bool
		want, err     string
	}{
		"auto on a terminal": {level: "info", format: "auto", terminal: true, want: asText},
		"auto elsewhere":     {level: "debug", format: "auto", want: asJSON},
		"text":               {level: "info", format: "text", want: asText},
		"json":               {level: "info", format: "json", terminal: true, want: asJSON},
		"below the level":    {level: "warn", format: "auto"},
		"bad level":          {level: "wran", format: "auto", err: `--log-level: "wran" is none of debug, info, warn, error, did you mean "warn"?`},
		"bad format":         {level: "info", format: "xml", err: `--log-format: "xml" is none of auto, text, json`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			logger, err := NewLogger(&out, tc.level, tc.format, tc.terminal)
			if err != nil {
				checkEqual(t, "error", err.Error(), tc.err)
				return
			}
			at := time.Date(2026, 1, 2, 5, 4, 5, 0, time.FixedZone("", 2*60*60))
			record := slog.NewRecord(at, slog.LevelInfo, "hello", 0)
			record.Add("requestID", 7)
			if logger.Enabled(t.Context(), record.Level) {
				if err := logger.Handler().Handle(t.Context(), record); err != nil {
					t.Fatal(err)
				}
			}
			checkEqual(t, "output", out.String(), tc.want)
		})
	}
}

func TestFileIsNoTerminal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "terminal", IsTerminal(f), false)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "closed file", IsTerminal(f), false)
}
