package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// setup is what one line of the table runs on.
type setup struct {
	strategy             string
	engines, slots, room int
}

// result is one line of the table. Times are milliseconds.
type result struct {
	reuse, p50, p95, skew float64
	requests, failed      int
}

// model is what the engines serve.
const model = "sim-model"

// measure runs one setup on processes of its own.
func measure(ctx context.Context, o options, dir string, s setup) (result, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var children []*exec.Cmd
	defer func() {
		cancel()
		for _, c := range children {
			_ = c.Wait()
		}
	}()
	start := func(args ...string) error {
		c := exec.CommandContext(ctx, o.binary, args...)
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 10 * time.Second
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("%s-%d.log", args[0], len(children))))
		if err != nil {
			return err
		}
		defer log.Close()
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			return fmt.Errorf("start %s: %w", args[0], err)
		}
		children = append(children, c)
		return nil
	}
	var engines []string
	for range s.engines {
		addr, err := freeAddress()
		if err != nil {
			return result{}, err
		}
		engines = append(engines, "http://"+addr)
		err = start("sim", "--listen", addr, "--model", model, "--max-num-seqs", strconv.Itoa(s.slots), "--prefix-cache-chars", strconv.Itoa(s.room),
			"--prefill-base", "5ms", "--prefill-per-1k-chars", "10ms", "--token-interval", "20ms", "--log-level", "error")
		if err != nil {
			return result{}, err
		}
	}
	policy := filepath.Join(dir, "policy.yaml")
	text := "routing_policy:\n  strategy: " + s.strategy + "\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		return result{}, err
	}
	addr, err := freeAddress()
	if err != nil {
		return result{}, err
	}
	admin, err := freeAddress()
	if err != nil {
		return result{}, err
	}
	args := []string{"up", "--data", filepath.Join(dir, "data"), "--listen", addr, "--admin-listen", admin, "--nats-listen", "127.0.0.1:0", "--policy", policy, "--capacity", strconv.Itoa(s.slots), "--log-level", "warn"}
	for _, e := range engines {
		args = append(args, "--engine", e)
	}
	if err := start(args...); err != nil {
		return result{}, err
	}
	if err := ready(ctx, "http://"+admin, s.engines); err != nil {
		return result{}, err
	}
	t := newTalk(o, "http://"+addr)
	t.run(ctx)
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	r := result{requests: len(t.ttft) + t.failed, failed: t.failed}
	slices.Sort(t.ttft)
	if len(t.ttft) > 0 {
		r.p50, r.p95 = t.ttft[len(t.ttft)/2], t.ttft[len(t.ttft)*95/100]
	}
	if t.failed > 0 {
		fmt.Fprintln(os.Stderr, "conversations: a failed request:", t.failure)
	}
	return r, r.count(ctx, engines)
}

// count reads what the engines say of themselves.
func (r *result) count(ctx context.Context, engines []string) error {
	var hits, queries, most, sum float64
	for _, e := range engines {
		m, err := metrics(ctx, e)
		if err != nil {
			return err
		}
		hits += m["vllm:prefix_cache_hits_total"]
		queries += m["vllm:prefix_cache_queries_total"]
		n := m["vllm:request_success_total"]
		sum += n
		most = max(most, n)
	}
	if queries == 0 || sum == 0 {
		return errors.New("the engines have served nothing")
	}
	r.reuse = hits / queries
	r.skew = most/(sum/float64(len(engines))) - 1
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// ready waits until the scheduler knows all agents.
func ready(ctx context.Context, admin string, engines int) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		m, err := metrics(ctx, admin)
		if err == nil && m["tokenbus_scheduler_agents"] == float64(engines) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the scheduler does not know all agents")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// metrics reads a metrics page; labels are cut off and their series summed.
func metrics(ctx context.Context, url string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	all := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:at], "{")
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			all[name] += v
		}
	}
	return all, lines.Err()
}
