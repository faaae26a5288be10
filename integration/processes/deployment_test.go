package processes

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// dependOnSource makes go test's cache see the source that the binary is built
// from: a result counts only as long as no file that the test looked at changed.
func dependOnSource() error {
	return filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && d.Name() != "go.mod" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
}

// binary is built once for all tests of the package.
var binary = sync.OnceValues(func() (string, error) {
	if err := dependOnSource(); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "tokenbus")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tokenbus")
	cmd := exec.Command("go", "build", "-o", path, "github.com/tokenbus/tokenbus/cmd/tokenbus")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is one running tokenbus.
type process struct {
	name string
	cmd  *exec.Cmd
	log  *strings.Builder
	done chan struct{}
	err  error
}

// start runs a tokenbus and ends it with the test.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: exec.Command(path, args...), log: &strings.Builder{}, done: make(chan struct{})}
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			fmt.Fprintln(p.log, s.Text())
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("%s:\n%.4000s", name, p.log)
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// wait waits for the end of a process.
func (p *process) wait(t *testing.T, limit time.Duration) error {
	t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(limit):
		t.Fatalf("%s did not end within %v", p.name, limit)
		return nil
	}
}

// freePort gives an address on loopback that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 { // below the ports that the kernel gives to outgoing connections
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))); err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// deployment is 1 bus, 2 gateways, 2 schedulers, 3 agents and 3 engines.
type deployment struct {
	bus        *process
	busArgs    []string
	gateways   []*process
	urls       []string // of the gateways
	schedulers []*process
	agents     []*process
	admins     []string // of the agents
	engines    []string
}

func deploy(t *testing.T, simArgs ...string) *deployment {
	t.Helper()
	if testing.Short() {
		t.Skip("starts eleven processes")
	}
	d := &deployment{}
	natsAddr := freePort(t)
	natsURL := "nats://" + natsAddr
	d.busArgs = []string{"bus", "--listen", natsAddr, "--data", t.TempDir(), "--no-sync-always"}
	// The order does not matter: everything waits for the bus.
	for i := range 3 {
		engine, admin := freePort(t), freePort(t)
		start(t, fmt.Sprintf("sim %d", i), append([]string{"sim", "--listen", engine, "--model", "m"}, simArgs...)...)
		d.engines = append(d.engines, "http://"+engine)
		d.admins = append(d.admins, "http://"+admin)
		d.agents = append(d.agents, start(t, fmt.Sprintf("agent %d", i), "agent", "--nats", natsURL, "--id", fmt.Sprintf("agent-%d", i),
			"--engine-url", "http://"+engine, "--capacity", "40", "--admin-listen", admin))
	}
	for i := range 2 {
		d.schedulers = append(d.schedulers, start(t, fmt.Sprintf("scheduler %d", i), "scheduler", "--nats", natsURL))
		addr := freePort(t)
		d.urls = append(d.urls, "http://"+addr)
		// One gateway has a scheduler of its own, the other uses those on the bus.
		scheduler := []string{"--local-scheduler", "--no-local-scheduler"}[i]
		d.gateways = append(d.gateways, start(t, fmt.Sprintf("gateway %d", i), "gateway", "--nats", natsURL, "--listen", addr, "--log-level", "warn", scheduler))
	}
	d.bus = start(t, "bus", d.busArgs...)
	for _, u := range d.urls {
		eventually(t, 20*time.Second, "gateway "+u+" is ready", func() bool {
			return status(u+"/ready") == http.StatusOK && strings.Contains(get(u+"/v1/models"), `"id":"m"`)
		})
	}
	for _, a := range d.admins {
		eventually(t, 20*time.Second, "agent "+a+" is ready", func() bool { return status(a+"/ready") == http.StatusOK })
	}
	return d
}

func eventually(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for until := time.Now().Add(limit); !f(); {
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableKeepAlives: false}}

func status(url string) int {
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

func get(url string) string {
	resp, err := client.Get(url)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// outcome is what a client saw.
type outcome struct {
	gateway int
	status  int
	err     error
	body    string
	ended   time.Time
}

func (o outcome) ok(stream bool) bool {
	return o.err == nil && o.status == http.StatusOK && (!stream || strings.HasSuffix(o.body, "data: [DONE]\n\n") && !strings.Contains(o.body, `"error"`))
}

func ask(ctx context.Context, url string, stream bool, tokens int, marker string) (o outcome) {
	defer func() { o.ended = time.Now() }()
	body := fmt.Sprintf(`{"model":"m","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, stream, tokens, marker)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return outcome{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return outcome{status: resp.StatusCode, body: string(b), err: err}
}

// record is the part of a simulation's record that tests look at.
type record struct {
	InFlight int `json:"in_flight"`
	Aborted  int `json:"aborted"`
	Finished int `json:"finished"`
	MaxRun   int `json:"max_running"`
	Requests []struct {
		Outcome string `json:"outcome"`
		Body    []byte `json:"body"`
	} `json:"requests"`
}

func (d *deployment) record(t *testing.T, i int) (r record) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(d.engines[i]+"/sim/record")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// settle waits until every count is back to zero (invariant 3).
func (d *deployment) settle(t *testing.T, agents ...int) {
	t.Helper()
	for _, i := range agents {
		eventually(t, 20*time.Second, fmt.Sprintf("invariant 3: agent %d has nothing active", i), func() bool {
			return strings.Contains(get(d.admins[i]+"/metrics"), fmt.Sprintf("tokenbus_agent_active_requests{agent=\"agent-%d\"} 0\n", i))
		})
		if r := d.record(t, i); r.InFlight != 0 || r.MaxRun > 40 {
			t.Errorf("invariants 2, 3: engine %d has %d in flight, had %d at most", i, r.InFlight, r.MaxRun)
		}
	}
}
