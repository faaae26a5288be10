package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// maxFileBytes bounds the configuration file.
const maxFileBytes = 4 << 20

// setting is a value from the environment or the file, and its origin.
type setting struct {
	value  any // string or list
	source string
	depth  int // of the section; the deepest wins
}

// settings hold what the environment and the file say about the flags of the
// selected command. They are the parser's resolver.
type settings map[*kong.Flag]setting

// Validate implements [kong.Resolver]. Everything has been checked by then.
func (s settings) Validate(*kong.Application) error { return nil }

// Resolve implements [kong.Resolver]. The parser asks only for flags that are
// not on the command line.
func (s settings) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	return s[flag].value, nil
}

// collect fills s for the command that trace selected and returns everything
// that is wrong with the file, then with the environment.
func (s settings) collect(m *model, trace *kong.Context, env map[string]string, allowed map[string]bool) []error {
	selected, active := map[*kong.Node]bool{}, map[*kong.Flag]bool{}
	for _, el := range trace.Path {
		if n := el.Node(); n != nil {
			selected[n] = true
			for _, flag := range n.Flags {
				active[flag] = true
			}
		}
	}
	var problems []error
	if path, source := m.configFile(trace, env); path != "" {
		data, err := readConfig(path)
		if err != nil {
			problems = append(problems, fmt.Errorf("read the configuration file (%s): %w", source, err))
		}
		f := file{model: m, path: path, selected: selected, active: active, settings: s}
		f.load(data)
		problems = append(problems, f.problems...)
	}
	for flag := range active {
		for _, name := range m.env[flag] {
			if value := env[name]; value != "" {
				s[flag] = setting{value: value, source: "env " + name}
				break
			}
		}
	}
	return append(problems, m.checkEnviron(s, env, allowed)...)
}

// configFile returns the path of the configuration file and who named it.
func (m *model) configFile(trace *kong.Context, env map[string]string) (path, source string) {
	for _, el := range trace.Path {
		if el.Flag == m.config {
			return fmt.Sprint(trace.FlagValue(m.config)), "--" + m.config.Name
		}
	}
	name := envName(m.config.Name)
	return env[name], name
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %v", path, Bytes(maxFileBytes))
	}
	return data, nil
}

// environment turns the form of os.Environ into a map.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// serviceLink matches the variables that Kubernetes sets in every pod of a
// namespace for a service that is named tokenbus or tokenbus-x. The names alone
// do not always tell them from a setting; the value of X_PORT is a URL.
var serviceLink = regexp.MustCompile(`^TOKENBUS_(\w+_)?(SERVICE_HOST=|SERVICE_PORT(_\w+)?=|PORT=(tcp|udp|sctp)://|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// checkEnviron returns the unknown variables and the bad values among those
// that s took, by name.
func (m *model) checkEnviron(s settings, env map[string]string, allowed map[string]bool) []error {
	known := map[string]bool{}
	for _, names := range m.env {
		for _, name := range names {
			known[name] = true
		}
	}
	users := map[string][]*kong.Flag{}
	for flag, setting := range s {
		if name, ok := strings.CutPrefix(setting.source, "env "); ok {
			users[name] = append(users[name], flag)
		}
	}
	var problems []error
	for _, name := range keys(env) {
		for _, flag := range users[name] {
			if err := check(flag, env[name]); err != nil {
				problems = append(problems, fmt.Errorf("%s: %s", name, badValue(flag, env[name], err)))
				break
			}
		}
		if !strings.HasPrefix(name, envPrefix) || known[name] || allowed[name] || serviceLink.MatchString(name+"="+env[name]) {
			continue
		}
		problems = append(problems, fmt.Errorf("%s: unknown environment variable%s", name, didYouMean(name, keys(known))))
	}
	return problems
}
