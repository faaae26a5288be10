package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	build := &debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{
			{Path: "github.com/nats-io/nats.go", Version: "v1.0.0"},
			{Path: "github.com/nats-io/nats-server/v2", Version: "v2.15.3"},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	}
	checkEqual(t, "recorded", readInfo(build), Info{"v1.2.3", "abc+dirty", runtime.Version(), "v2.15.3"})
	checkEqual(t, "nothing recorded", readInfo(nil), Info{"(devel)", "", runtime.Version(), ""})
	checkEqual(t, "line", Info{"v1", "", "go1", ""}.String(), "tokenbus v1 (commit unknown, go1, nats-server none)")

	version, commit = "v9", "def"
	defer func() { version, commit = "", "" }()
	checkEqual(t, "set at link time", readInfo(build), Info{"v9", "def", runtime.Version(), "v2.15.3"})
}
