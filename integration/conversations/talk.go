package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// talk is all conversations of a run.
type talk struct {
	o       options
	url     string
	client  *http.Client
	systems []string

	mu      sync.Mutex
	ttft    []float64 // milliseconds
	failed  int
	failure error
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func newTalk(o options, url string) *talk {
	t := &talk{o: o, url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * o.users}}}
	r := rand.New(rand.NewPCG(o.seed, 0))
	for range o.systems {
		t.systems = append(t.systems, words(r, o.chars))
	}
	return t
}

// words is a text of so many characters.
func words(r *rand.Rand, chars int) string {
	var b strings.Builder
	for b.Len() < chars {
		for range 2 + r.IntN(8) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
		b.WriteByte(' ')
	}
	return b.String()[:chars]
}

// run lets all users talk, and returns when the last one is done. They do not begin
// at one moment.
func (t *talk) run(ctx context.Context) {
	var wg sync.WaitGroup
	for u := range t.o.users {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(t.o.seed, uint64(u+1)))
			if !sleep(ctx, time.Duration(r.Float64()*float64(t.o.pause)*2)) {
				return
			}
			t.user(ctx, u, r)
		})
	}
	wg.Wait()
	t.client.CloseIdleConnections()
}

// user is one conversation.
func (t *talk) user(ctx context.Context, user int, r *rand.Rand) {
	messages := []message{{"system", t.systems[r.IntN(len(t.systems))]}}
	for turn := range t.o.turns {
		if turn > 0 && !sleep(ctx, time.Duration(r.ExpFloat64()*float64(t.o.pause))) {
			return
		}
		messages = append(messages, message{"user", words(r, t.o.message/2+r.IntN(t.o.message))})
		reply, first, err := t.ask(ctx, user, messages)
		t.mu.Lock()
		if err != nil {
			t.failed++
			t.failure = err
			t.mu.Unlock()
			return
		}
		t.ttft = append(t.ttft, first.Seconds()*1000)
		t.mu.Unlock()
		messages = append(messages, message{"assistant", reply})
	}
}

// ask sends one turn, and gives the reply and the time to its first token.
func (t *talk) ask(ctx context.Context, user int, messages []message) (string, time.Duration, error) {
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "max_tokens": t.o.reply, "messages": messages, "user": fmt.Sprint("user-", user)})
	if err != nil {
		return "", 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := t.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return "", 0, fmt.Errorf("status %d: %s", resp.StatusCode, b)
	}
	return read(resp.Body, began)
}

// read reads a stream of chat completion chunks.
func read(stream io.Reader, began time.Time) (string, time.Duration, error) {
	var reply strings.Builder
	var first time.Duration
	all := new(bytes.Buffer)
	buf := make([]byte, 4<<10)
	done := false
	for {
		n, err := stream.Read(buf)
		all.Write(buf[:n])
		for {
			event, rest, found := bytes.Cut(all.Bytes(), []byte("\n\n"))
			if !found {
				break
			}
			data := bytes.TrimPrefix(event, []byte("data: "))
			var chunk struct {
				Choices []struct {
					Delta struct {
						Content string `json:"content"`
					} `json:"delta"`
				} `json:"choices"`
			}
			if string(data) == "[DONE]" {
				done = true
			} else if json.Unmarshal(data, &chunk) == nil && len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
				if first == 0 {
					first = time.Since(began)
				}
				reply.WriteString(chunk.Choices[0].Delta.Content)
			}
			all.Next(len(all.Bytes()) - len(rest))
		}
		if err == io.EOF && done {
			return reply.String(), first, nil
		}
		if err != nil {
			return "", 0, fmt.Errorf("the stream broke: %w", err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
