package main

import (
	"errors"
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// runProxy is the reverse proxy that Tokenbus is measured against: this program
// started again as "bench proxy".
func runProxy(args []string) error {
	f := flag.NewFlagSet("proxy", flag.ContinueOnError)
	listen := f.String("listen", "", "address")
	to := f.String("to", "", "URL of the engine")
	better := f.Bool("tuned", false, "keep 1,024 idle connections, and leave request bodies open")
	if err := f.Parse(args); err != nil {
		return err
	}
	engine, err := url.Parse(*to)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	var handler http.Handler = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(engine) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(os.Stderr, "", 0),
	}
	if *better {
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
		handler = fullDuplex(handler)
	}
	srv := &http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second, Handler: handler}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	go func() { <-stop; _ = srv.Close() }()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// fullDuplex keeps the server from closing the body of a request when its answer
// starts.
func fullDuplex(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 has it
		next.ServeHTTP(w, r)
	})
}
