package bus

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Defaults of the embedded server. MaxPayload must be the same on every server of
// a deployment: unequal values tear leaf links down.
const (
	MaxPayload     = 8 << 20
	maxPending     = 128 << 20
	writeDeadline  = 10 * time.Second
	pingInterval   = 10 * time.Second
	maxPingsOut    = 2
	lameDuckPeriod = 5 * time.Second
)

// ServerConfig is what an embedded NATS server needs. Everything else is a
// default of this package, or in a nats-server configuration file.
type ServerConfig struct {
	Name          string   // unique among the servers of a deployment
	Listen        string   // host:port for clients; empty: in-process connections only
	DataDir       string   // JetStream's directory; empty: no JetStream
	Domain        string   // JetStream domain
	SyncAlways    bool     // fsync each JetStream write: for a single server
	ClusterName   string   // with ClusterListen and Routes: a full-mesh cluster
	ClusterListen string   // host:port for other servers of the cluster
	Routes        []string // nats-route URLs of other servers of the cluster
	LeafListen    string   // host:port for leaf nodes
	LeafRemotes   []string // URLs of the servers this one is a leaf of
	ConfigFile    string   // a nats-server configuration file: accounts, TLS, limits
}

// Server is an embedded nats-server. It is the real one: any NATS client and the
// nats CLI talk to it.
type Server struct {
	ns *server.Server
}

// NewServer starts an embedded NATS server and waits until it takes connections.
// It refuses to listen beyond loopback unless its configuration file says who may
// connect. The caller must call [Server.Close].
func NewServer(cfg ServerConfig) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	if cfg.Listen != "" {
		// The server itself would only log that it can't listen.
		l, err := net.Listen("tcp", cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("listen for NATS clients: %w", err)
		}
		_ = l.Close()
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("configure the NATS server: %w", err)
	}
	go ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		ns.Shutdown()
		return nil, fmt.Errorf("start the NATS server: not ready on %s after 10 s", cfg.Listen)
	}
	return &Server{ns: ns}, nil
}

// InProcessConn makes a connection to the server without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.ns.InProcessConn() }

// URL is where clients connect, empty if the server does not listen.
func (s *Server) URL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// Close stops the server at once and waits until it is gone.
func (s *Server) Close() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// LameDuck stops taking connections, asks the clients to leave over a few
// seconds, and stops.
func (s *Server) LameDuck() {
	s.ns.LameDuckShutdown()
	s.ns.WaitForShutdown()
}

func (c ServerConfig) options() (*server.Options, error) {
	opts := &server.Options{}
	if c.ConfigFile != "" {
		var err error
		if opts, err = server.ProcessConfigFile(c.ConfigFile); err != nil {
			return nil, fmt.Errorf("read the NATS server configuration: %w", err)
		}
	}
	opts.NoSigs, opts.NoLog = true, true
	opts.ServerName = c.Name
	opts.MaxPayload = MaxPayload
	opts.MaxPending = maxPending
	opts.WriteDeadline = writeDeadline
	opts.PingInterval, opts.MaxPingsOut = pingInterval, maxPingsOut
	opts.LameDuckDuration, opts.LameDuckGracePeriod = lameDuckPeriod, 100*time.Millisecond
	if c.DataDir != "" {
		opts.JetStream, opts.StoreDir = true, c.DataDir
		opts.JetStreamDomain = c.Domain
		opts.SyncAlways = c.SyncAlways
	}
	if c.Listen == "" {
		opts.DontListen = true
		return opts, nil
	}
	var err error
	if opts.Host, opts.Port, err = hostPort(c.Listen); err != nil {
		return nil, fmt.Errorf("listen address %q: %w", c.Listen, err)
	}
	listens := []string{opts.Host}
	if c.ClusterListen != "" {
		if c.ClusterName == "" {
			return nil, errors.New("a cluster needs a name that all its servers share")
		}
		opts.Cluster.Name = c.ClusterName
		if opts.Cluster.Host, opts.Cluster.Port, err = hostPort(c.ClusterListen); err != nil {
			return nil, fmt.Errorf("cluster listen address %q: %w", c.ClusterListen, err)
		}
		listens = append(listens, opts.Cluster.Host)
		if opts.Routes, err = urls(c.Routes); err != nil {
			return nil, fmt.Errorf("cluster route: %w", err)
		}
	}
	if c.LeafListen != "" {
		if opts.LeafNode.Host, opts.LeafNode.Port, err = hostPort(c.LeafListen); err != nil {
			return nil, fmt.Errorf("leaf listen address %q: %w", c.LeafListen, err)
		}
		listens = append(listens, opts.LeafNode.Host)
	}
	remotes, err := urls(c.LeafRemotes)
	if err != nil {
		return nil, fmt.Errorf("leaf remote: %w", err)
	}
	for _, u := range remotes {
		opts.LeafNode.Remotes = append(opts.LeafNode.Remotes, &server.RemoteLeafOpts{URLs: []*url.URL{u}})
	}
	if !restricted(opts) {
		for _, host := range listens {
			if !Loopback(host) {
				return nil, fmt.Errorf("refusing to listen on %q: anybody who reaches it could read and answer requests; "+
					"listen on 127.0.0.1, or name a nats-server configuration file with accounts and TLS", host)
			}
		}
	}
	return opts, nil
}

// restricted reports whether a connection needs a credential.
func restricted(o *server.Options) bool {
	return o.Username != "" || o.Authorization != "" || len(o.Users) > 0 || len(o.Nkeys) > 0 ||
		len(o.TrustedOperators) > 0 || len(o.TrustedKeys) > 0 || o.AuthCallout != nil || o.TLSVerify
}

// Loopback reports whether a listen host is reachable from this machine only.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func hostPort(addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 {
		return "", 0, fmt.Errorf("%q is not a port", port)
	}
	if n == 0 {
		n = server.RANDOM_PORT
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return host, n, nil
}

func urls(in []string) ([]*url.URL, error) {
	var out []*url.URL
	for _, s := range in {
		u, err := url.Parse(s)
		if err != nil {
			return nil, err
		}
		if u.Host == "" {
			return nil, fmt.Errorf("%q has no host", s)
		}
		out = append(out, u)
	}
	return out, nil
}
