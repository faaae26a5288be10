package integration

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkRequest is one request through everything, one after the other: client,
// gateway, scheduler, agent and engine in one process over a real NATS server.
func BenchmarkRequest(b *testing.B) {
	s := start(b)
	for name, stream := range map[string]bool{"whole": false, "stream": true} {
		b.Run(name, func(b *testing.B) {
			body := fmt.Sprintf(`{"model":"%s","stream":%v,"max_tokens":64,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
			b.ReportAllocs()
			for b.Loop() {
				resp, err := s.http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
				check(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				check(b, err)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Fatalf("status %d", resp.StatusCode)
				}
			}
		})
	}
}
