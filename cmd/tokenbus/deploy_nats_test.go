package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tokenbus/tokenbus/bus"
)

// passwords sets what the NATS configurations take from the environment.
func passwords(t *testing.T) {
	t.Helper()
	for name, value := range map[string]string{
		"BUS_NAME": "bus-1", "BUS_DOMAIN": "eu", "BUS_DATA": t.TempDir(), "BUS_PASSWORD": "pw-bus", "BUS_OPERATOR_PASSWORD": "pw-operator",
		"BUS_ROUTE_PASSWORD": "pw-route", "BUS_LEAF_PASSWORD": "pw-leaf", "BUS_ROUTE_1": "nats://route:pw-route@bus-2:6222",
		"BUS_ROUTE_2": "nats://route:pw-route@bus-3:6222", "BUS_HUB": "nats-leaf://leaf:pw-leaf@bus-1:7422",
	} {
		t.Setenv(name, value)
	}
}

// TestNATSConfigs: each sample loads with the server's own parser, lets nobody in
// without a credential, and has the limits that Tokenbus wants everywhere.
func TestNATSConfigs(t *testing.T) {
	passwords(t)
	files, err := filepath.Glob("../../deploy/nats/*.conf")
	if err != nil || len(files) != 4 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		o, err := server.ProcessConfigFile(f)
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		if len(o.Users) != 2 || o.Users[0].Password != "pw-bus" || o.Users[1].Password != "pw-operator" {
			t.Errorf("%s: users %v", f, o.Users)
		}
		if filepath.Base(f) == "bus.conf" {
			continue // the rest comes from the flags of tokenbus bus
		}
		if o.MaxPayload != bus.MaxPayload || o.MaxPending != 128<<20 || o.WriteDeadline != 10*time.Second || o.PingInterval != 10*time.Second || o.MaxPingsOut != 2 {
			t.Errorf("%s: the limits are not those of tokenbus bus", f)
		}
		if !o.JetStream || o.JetStreamDomain == "" || o.StoreDir == "" || o.ServerName != "bus-1" {
			t.Errorf("%s: JetStream %v, domain %q, directory %q, name %q", f, o.JetStream, o.JetStreamDomain, o.StoreDir, o.ServerName)
		}
		if alone := o.Cluster.Name == ""; alone != o.SyncAlways {
			t.Errorf("%s: alone %v, sync always %v", f, alone, o.SyncAlways)
		}
		if !bus.Loopback(o.HTTPHost) {
			t.Errorf("%s: monitoring listens on %q", f, o.HTTPHost)
		}
		if o.Cluster.Name != "" && (o.Cluster.Password != "pw-route" || len(o.Routes) != 2 || o.LeafNode.Password != "pw-leaf") {
			t.Errorf("%s: cluster %+v, routes %v", f, o.Cluster, o.Routes)
		}
	}
}

// external runs a nats-server from a sample, on ports that are free.
func external(t *testing.T, name string, change func(*server.Options)) *server.Server {
	t.Helper()
	t.Setenv("BUS_NAME", name)
	t.Setenv("BUS_DATA", t.TempDir())
	o, err := server.ProcessConfigFile("../../deploy/nats/" + name + ".conf")
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.HTTPPort, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, 0, true, true
	change(o)
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go ns.Start()
	t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatalf("%s does not start", name)
	}
	return ns
}

func dialAs(ctx context.Context, user, addr string) (*bus.Link, error) {
	return bus.Dial(ctx, bus.Config{Name: "test", URLs: []string{"nats://" + user + "@" + addr}})
}

// TestNATSServers: a server alone serves JetStream to who has the password and to
// nobody else, and a leaf hears what is said at its hub.
func TestNATSServers(t *testing.T) {
	passwords(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	single := external(t, "single", func(*server.Options) {})
	link, err := dialAs(ctx, "tokenbus:pw-bus", single.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if err := link.WaitJetStream(ctx); err != nil {
		t.Error(err)
	}
	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if stranger, err := dialAs(short, "tokenbus:wrong", single.Addr().String()); err == nil {
		stranger.Close()
		t.Error("a wrong password is let in")
	}

	hub := external(t, "cluster", func(o *server.Options) {
		o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", server.RANDOM_PORT
		o.Cluster, o.Routes = server.ClusterOpts{}, nil // TestBusCluster has three
	})
	info, err := hub.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("BUS_HUB", fmt.Sprintf("nats-leaf://leaf:pw-leaf@127.0.0.1:%d", info.LeafNode.Port))
	leaf := external(t, "leaf", func(*server.Options) {})
	a, err := dialAs(ctx, "tokenbus:pw-bus", hub.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := dialAs(ctx, "tokenbus:pw-bus", leaf.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	heard := make(chan struct{}, 100)
	if _, err := b.Subscribe(b.Control, "over", "", func(*bus.Msg) { heard <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	for { // until the link is up and knows the subscription
		if err := a.Control.Publish("over", make([]byte, bus.MaxPayload/2)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-heard:
			return
		case <-ctx.Done():
			t.Fatal("the leaf hears nothing of its hub")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// TestBusCluster: three tokenbus bus with the flags and the file of the compose files
// are one cluster with JetStream.
func TestBusCluster(t *testing.T) {
	passwords(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var clients, peers []string
	for range 3 {
		clients, peers = append(clients, freeAddr(t)), append(peers, freeAddr(t))
	}
	var routes []string
	for _, p := range peers {
		routes = append(routes, (&url.URL{Scheme: "nats", User: url.UserPassword("route", "pw-bus"), Host: p}).String())
	}
	var servers []*bus.Server
	for i := range 3 {
		srv, err := bus.NewServer(bus.ServerConfig{
			Name: fmt.Sprint("bus-", i), Listen: clients[i], DataDir: t.TempDir(), Domain: "tokenbus", ClusterName: "tokenbus",
			ClusterListen: peers[i], Routes: routes, ConfigFile: "../../deploy/compose/bus-cluster.conf",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Close)
		servers = append(servers, srv)
	}
	link, err := dialAs(ctx, "tokenbus:pw-bus", clients[0])
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	if err := link.WaitJetStream(ctx); err != nil {
		t.Fatal(err)
	}
	for i, srv := range servers {
		s, err := srv.Stats()
		if err != nil || s.Routes == 0 || s.JetStream == nil {
			t.Errorf("server %d: %+v, %v", i, s, err)
		}
	}
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strings.Clone(l.Addr().String())
}
