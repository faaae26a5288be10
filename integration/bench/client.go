package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// newClient makes an HTTP client that never has to dial twice.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 4096,
		DisableCompression:  true,
		IdleConnTimeout:     time.Minute,
	}}
}

// chatBody is the request that every target gets.
func chatBody(o options, tokens int, stream bool) []byte {
	prompt := strings.Repeat("The quick brown fox jumps over the lazy dog. ", o.prompt/45+1)[:o.prompt]
	body := map[string]any{
		"model":      "sim-model",
		"messages":   []map[string]string{{"role": "user", "content": prompt}},
		"max_tokens": tokens,
	}
	if stream {
		body["stream"] = true
		if o.usage {
			body["stream_options"] = map[string]bool{"include_usage": true}
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings, numbers and booleans only
	}
	return b
}

// postChat sends a request. Every status but 200 is an error; the caller closes the
// body.
func postChat(ctx context.Context, client *http.Client, base string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // what there is
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s", resp.Status, said)
	}
	return resp, nil
}

// stream is what the client saw of one streaming request, in nanoseconds since the
// start of the turn.
type stream struct {
	sent     int64
	first    int64   // first byte of the body; 0: none
	arrivals []int64 // one for each token
}

// events is how many events a whole stream has beside its tokens: the role, the
// finish reason, the usage if asked for, and [DONE].
func (o options) events() int {
	if o.usage {
		return 4
	}
	return 3
}

// readStream sends a streaming request and notes when each token arrived, until the
// stream ends or ctx does. It counts events by line ends, two for each; the first
// event has no token and comes with the first one.
func readStream(ctx context.Context, client *http.Client, base string, body []byte, tokens, extra int, now func() int64) (stream, error) {
	s := stream{sent: now(), arrivals: make([]int64, 0, min(tokens, 1024))}
	resp, err := postChat(ctx, client, base, body)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	buf := make([]byte, 8<<10)
	lines := 0
	for {
		n, err := resp.Body.Read(buf)
		at := now()
		if n > 0 && s.first == 0 {
			s.first = at
		}
		lines += bytes.Count(buf[:n], []byte("\n"))
		for made := min(lines/2-1, tokens); len(s.arrivals) < made; {
			s.arrivals = append(s.arrivals, at)
		}
		switch {
		case err == io.EOF && lines != 2*(tokens+extra):
			return s, fmt.Errorf("the stream ended after %d lines; %d tokens are %d", lines, tokens, 2*(tokens+extra))
		case err == io.EOF:
			return s, nil
		case err != nil:
			return s, err
		}
	}
}
