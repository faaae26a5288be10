package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set at link time, for builds outside a version control checkout:
//
//	-ldflags "-X github.com/tokenbus/tokenbus/cmd/tokenbus/internal/cli.version=v1.2.3"
var (
	version string
	commit  string
)

// Info says what this binary was built from. A part that is not known is empty.
type Info struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Go         string `json:"go"`
	NATSServer string `json:"nats_server"`
}

// String is one line for people.
func (i Info) String() string {
	commit := i.Commit
	if commit == "" {
		commit = "unknown"
	}
	nats := i.NATSServer
	if nats == "" {
		nats = "none"
	}
	return fmt.Sprintf("tokenbus %s (commit %s, %s, nats-server %s)", i.Version, commit, i.Go, nats)
}

// Version returns the facts about this binary: those set at link time first,
// then those that the Go toolchain recorded.
func Version() Info {
	build, _ := debug.ReadBuildInfo()
	return readInfo(build)
}

func readInfo(build *debug.BuildInfo) Info {
	info := Info{Version: version, Commit: commit, Go: runtime.Version()}
	if build == nil {
		build = &debug.BuildInfo{}
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	if info.Version == "" {
		info.Version = "(devel)"
	}
	if info.Commit == "" {
		info.Commit = revision(build.Settings)
	}
	for _, dep := range build.Deps {
		if dep.Path == "github.com/nats-io/nats-server/v2" {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			info.NATSServer = dep.Version
		}
	}
	return info
}

// revision is the commit in the build settings, marked if there were changes
// on top of it.
func revision(settings []debug.BuildSetting) string {
	values := map[string]string{}
	for _, s := range settings {
		values[s.Key] = s.Value
	}
	out := values["vcs.revision"]
	if out != "" && values["vcs.modified"] == "true" {
		out += "+dirty"
	}
	return out
}
