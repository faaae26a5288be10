package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

func TestSecretIsMasked(t *testing.T) {
	const secret = Secret("hunter2")
	holder := struct {
		Key  Secret
		Keys []Secret
		Ptr  *Secret
	}{Key: secret, Keys: []Secret{secret}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		checkEqual(t, verb, fmt.Sprintf(verb, secret), mask)
		checkMasked(t, verb, fmt.Sprintf(verb, holder))
	}
	asJSON, err := json.Marshal(holder)
	checkMasked(t, "JSON", string(asJSON), err)
	asYAML, err := yaml.Dump(holder)
	checkMasked(t, "YAML", string(asYAML), err)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "a", secret, "b", holder)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "a", secret, "b", holder)
	checkMasked(t, "slog", log.String())
	checkEqual(t, "empty secret", Secret("").String(), "")
	checkEqual(t, "revealed", secret.Reveal(), "hunter2")
}

func checkMasked(t *testing.T, what, got string, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if strings.Contains(got, "hunter2") || strings.Contains(got, fmt.Sprintf("%x", "hunter2")) || !strings.Contains(got, mask) {
		t.Errorf("%s: got %s", what, got)
	}
}

func TestResolveSecret(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "key", " hunter2\n")
	writeFile(t, "empty", "\n")
	for name, tc := range map[string]struct {
		value     Secret
		file      string
		want, err string
	}{
		"neither": {},
		"value":   {value: "a", want: "a"},
		"file":    {file: "key", want: "hunter2"},
		"both":    {value: "a", file: "key", err: "--engine-key and --engine-key-file are both set; keep one"},
		"empty":   {file: "empty", err: "--engine-key-file: empty is empty"},
		"missing": {file: "none", err: "read --engine-key-file: open none: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ResolveSecret("engine-key", tc.value, tc.file)
			checkEqual(t, "secret", got.Reveal(), tc.want)
			text := ""
			if err != nil {
				text = err.Error()
			}
			checkEqual(t, "error", text, tc.err)
		})
	}
}

func TestRedact(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"plain":          {"nats://a:4222", "nats://a:4222"},
		"user":           {"nats://u:p@a:4222", "nats://****@a:4222"},
		"token":          {"nats://tok@a", "nats://****@a"},
		"comma":          {"nats://u:p,q@a", "nats://****@a"},
		"several":        {"nats://u:p@a,tls://u:p@b/x", "nats://****@a,tls://****@b/x"},
		"at in the path": {"http://a/b@c", "http://a/b@c"},
	} {
		t.Run(name, func(t *testing.T) { checkEqual(t, "redacted", redact(tc.in), tc.want) })
	}
}
