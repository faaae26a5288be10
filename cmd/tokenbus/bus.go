package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/tokenbus/tokenbus/bus"
)

type busCmd struct {
	processFlags
	Listen        string   `help:"Address for NATS clients." default:"127.0.0.1:4222"`
	Data          string   `help:"Directory of JetStream; its default is below the user's data directory." placeholder:"DIR"`
	Name          string   `help:"Name of the server, unique in the deployment; its default is the host's." placeholder:"NAME"`
	Domain        string   `help:"JetStream domain; one a region." default:"tokenbus"`
	SyncAlways    bool     `help:"Write JetStream through to the disk at each change: for a server that is alone." default:"true" negatable:""`
	ClusterName   string   `help:"Name of the cluster that the server is in." placeholder:"NAME"`
	ClusterListen string   `help:"Address for the other servers of the cluster." placeholder:"HOST:PORT"`
	Route         []string `help:"Another server of the cluster; may be repeated." placeholder:"URL"`
	LeafListen    string   `help:"Address for leaf nodes." placeholder:"HOST:PORT"`
	LeafRemote    []string `help:"Server that this one is a leaf of; may be repeated." placeholder:"URL"`
	ServerConfig  string   `help:"A nats-server configuration file: accounts, credentials, TLS." placeholder:"FILE"`
}

// Examples is printed first by --help.
func (*busCmd) Examples() string {
	return `tokenbus bus
tokenbus bus --listen 127.0.0.1:4222 --data /var/lib/tokenbus`
}

// Run serves until ctx ends.
func (c *busCmd) Run(ctx context.Context) error {
	log, err := c.start()
	if err != nil {
		return err
	}
	if c.Data == "" {
		if c.Data, err = dataDir("bus"); err != nil {
			return err
		}
	}
	if c.Name == "" {
		c.Name = hostname()
	}
	p := newParts()
	if err := lockDir(p, c.Data); err != nil {
		return p.stop(err)
	}
	srv, err := bus.NewServer(bus.ServerConfig{
		Name: c.Name, Listen: c.Listen, DataDir: c.Data, Domain: c.Domain, SyncAlways: c.SyncAlways,
		ClusterName: c.ClusterName, ClusterListen: c.ClusterListen, Routes: c.Route,
		LeafListen: c.LeafListen, LeafRemotes: c.LeafRemote, ConfigFile: c.ServerConfig,
	})
	if err != nil {
		return p.stop(err)
	}
	p.onStop("NATS server", srv.LameDuck)
	a := newAdmin(func() bool { return true })
	a.registry.MustRegister(serverCollector{srv})
	if err := a.serve(p, c.processFlags, log); err != nil {
		return p.stop(err)
	}
	if c.ServerConfig == "" { // with accounts, nobody is let in without a credential
		link, err := bus.Dial(ctx, bus.Config{Name: "tokenbus bus", InProcess: srv, Log: log})
		if err != nil {
			return p.stop(err)
		}
		p.onStop("bus link", link.Close)
		svc, err := link.Announce("tokenbus-bus", semver(), "NATS server of Tokenbus", map[string]string{"name": c.Name, "url": srv.URL()})
		if err != nil {
			return p.stop(err)
		}
		p.onStop("bus service", svc.Stop)
	}
	log.Info("bus listens", "url", srv.URL(), "data", c.Data)
	return p.wait(ctx)
}

// dataDir is a directory below the user's data directory.
func dataDir(name string) (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errNoHome
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "tokenbus", name), nil
}
