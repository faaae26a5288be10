package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"

	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli"
)

type versionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version.
func (c *versionCmd) Run() error {
	v := cli.Version()
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(v)
	}
	_, err := fmt.Printf("tokenbus %s\ncommit %s\ngo %s\nnats-server %s\n", v.Version, v.Commit, v.Go, v.NATSServer)
	return err
}

var isSemver = regexp.MustCompile(`^\d+\.\d+\.\d+`)

// semver is the version in the form that NATS micro services need.
func semver() string {
	v := cli.Version().Version
	if len(v) > 0 && v[0] == 'v' {
		v = v[1:]
	}
	if !isSemver.MatchString(v) {
		return "0.0.0-dev"
	}
	return v
}
