package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

// admin is the operator side of a process.
type admin struct {
	registry *prometheus.Registry
	ready    func() bool
	operator *operatorSide // nil: the process does not serve /admin
}

func newAdmin(ready func() bool) *admin {
	a := &admin{registry: prometheus.NewRegistry(), ready: ready}
	a.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	v := cli.Version()
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tokenbus_build_info", Help: "Always 1; the labels tell the build.",
		ConstLabels: prometheus.Labels{"version": v.Version, "commit": v.Commit, "go": v.Go, "nats_server": v.NATSServer},
	}, func() float64 { return 1 }))
	a.gauge("tokenbus_ready", "Whether the process can do its work: what /ready says.", func() float64 {
		if a.ready() {
			return 1
		}
		return 0
	})
	return a
}

func (a *admin) gauge(name, help string, f func() float64) {
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// serve starts the operator side and the listener for Prometheus, if the process has
// them.
func (a *admin) serve(p *parts, f processFlags, log *slog.Logger) error {
	p.look = func() { a.ready() }
	p.warn = func(err error) { log.Warn("the service manager does not hear this process", "err", err) }
	if f.MetricsListen != "" {
		if err := a.listen(p, "metrics", "--metrics-listen", f.MetricsListen, a.metrics(), log); err != nil {
			return err
		}
	}
	if f.AdminListen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(f.AdminListen)
	if err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	if !bus.Loopback(host) {
		return fmt.Errorf("--admin-listen: refusing %q: the operator side has no credentials yet, so it listens on loopback only; use 127.0.0.1, and --metrics-listen for Prometheus", f.AdminListen)
	}
	mux := a.metrics()
	if a.operator != nil {
		a.operator.handle(mux)
		p.onStop("operator side's view", a.operator.close)
	}
	if f.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return a.listen(p, "operator side", "--admin-listen", f.AdminListen, mux, log)
}

// metrics is what Prometheus and probes get.
func (a *admin) metrics() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !a.ready() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "not ready")
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

// listen serves on an address until the parts stop.
func (a *admin) listen(p *parts, name, flag, addr string, h http.Handler, log *slog.Logger) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	p.start(name, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
		defer stop()
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	log.Info(name+" listens", "addr", l.Addr().String())
	return nil
}
