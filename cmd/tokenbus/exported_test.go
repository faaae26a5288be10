package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
	"github.com/tokenbus/tokenbus/gateway"
)

// exported is one metric that the code can show.
type exported struct {
	help   string
	labels []string
	kind   string // of what was gathered, "" if nothing was
}

// startUp runs all parts in this process, with simulated engines.
func startUp(t *testing.T) (*admin, *gateway.Gateway) {
	t.Helper()
	var g grammar
	if _, err := cli.Parse(&g, []string{"up", "--demo"}, cli.Environ(nil)); err != nil {
		t.Fatal(err)
	}
	c, log := &g.Up, slog.New(slog.DiscardHandler)
	c.Listen, c.DrainTimeout = "127.0.0.1:0", time.Second
	p := newParts()
	t.Cleanup(func() {
		if err := p.stop(nil); err != nil {
			t.Error(err)
		}
	})
	srv, err := bus.NewServer(bus.ServerConfig{Name: "up", DataDir: t.TempDir(), Domain: "tokenbus"})
	if err != nil {
		t.Fatal(err)
	}
	p.onStop("NATS server", srv.Close)
	engines, err := startDemo(p, log)
	if err != nil {
		t.Fatal(err)
	}
	var gw *gateway.Gateway
	adm := newAdmin(func() bool { return gw.Ready() })
	adm.registry.MustRegister(serverCollector{srv})
	if gw, err = c.startParts(t.Context(), p, srv, engines, adm, log); err != nil {
		t.Fatal(err)
	}
	p.onStop("operator side's view", adm.operator.close)
	return adm, gw
}

// demo gives what the parts can show, by name, after some traffic.
func demo(t *testing.T) map[string]exported {
	t.Helper()
	adm, gw := startUp(t)
	ask(t, gw)
	problems, err := testutil.GatherAndLint(adm.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range problems {
		t.Errorf("%s: %s", x.Metric, x.Text)
	}
	return describe(t, adm.registry)
}

// ask streams an answer from the demo, once its engines are known.
func ask(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	body := `{"model":"demo/small","stream":true,"max_tokens":4,"messages":[{"role":"user","content":"hello"}]}`
	for range 1000 {
		resp, err := http.Post("http://"+g.Addr().String()+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err == nil && resp.StatusCode == http.StatusOK {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the demo does not answer")
}

var (
	descText  = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: ("(?:[^"\\]|\\.)*"), (?:unit: "[^"]*", )?constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	constName = regexp.MustCompile(`(\w+)="`)
)

// describe reads the descriptions of a registry, and the kinds of what it gathers.
func describe(t *testing.T, r *prometheus.Registry) map[string]exported {
	t.Helper()
	ch := make(chan *prometheus.Desc)
	go func() {
		r.Describe(ch)
		close(ch)
	}()
	all := make(map[string]exported)
	for d := range ch {
		m := descText.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("can't read %s", d)
		}
		e := exported{}
		if err := json.Unmarshal([]byte(m[2]), &e.help); err != nil {
			t.Fatalf("%s: %v", m[2], err)
		}
		for _, c := range constName.FindAllStringSubmatch(m[3], -1) {
			e.labels = append(e.labels, c[1])
		}
		if m[4] != "" {
			e.labels = append(e.labels, strings.Split(m[4], ",")...)
		}
		all[m[1]] = e
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		e, ok := all[f.GetName()]
		if !ok {
			t.Errorf("%s is gathered and was not described", f.GetName())
		}
		e.kind = strings.ToLower(f.GetType().String())
		all[f.GetName()] = e
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if !slices.Contains(e.labels, l.GetName()) {
					t.Errorf("%s has the label %s, which was not described", f.GetName(), l.GetName())
				}
			}
		}
		if f.GetType() == dto.MetricType_HISTOGRAM && strings.HasPrefix(f.GetName(), "tokenbus_") {
			h := f.Metric[0].Histogram
			if len(h.Bucket) == 0 || h.GetSampleCount() > 0 && len(h.PositiveSpan) == 0 && h.GetZeroCount() == 0 {
				t.Errorf("%s has not both kinds of buckets: %v", f.GetName(), h)
			}
		}
	}
	return all
}
