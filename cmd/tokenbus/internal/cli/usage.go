package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// maxShown bounds the text of a UsageError: a file that is no configuration at
// all would fill the screen.
const maxShown = 100

// UsageError is everything that is wrong with the flags, the environment and
// the configuration file. Its problems name bad values, but never that of a
// [Secret] nor the credentials in a URL.
type UsageError struct {
	// Problems holds at least one error, in the order of the places they name.
	Problems []error
}

// Error is the problem itself, or a heading and one line a problem.
func (e *UsageError) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d problems in the configuration:", len(e.Problems))
	for i, problem := range e.Problems {
		if i == maxShown {
			fmt.Fprintf(&b, "\n  and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString("\n  ")
		b.WriteString(problem.Error())
	}
	return b.String()
}

// Unwrap makes each problem visible to errors.Is and errors.As.
func (e *UsageError) Unwrap() []error { return e.Problems }

// ExitCode is 2, the status shells use for a wrong invocation.
func (e *UsageError) ExitCode() int { return 2 }

// improve hides the credentials in, and adds a did-you-mean to, the parser's error about an unknown flag or
// command where the parser, which only knows the current command and distances
// up to two, has none.
func (m *model) improve(trace *kong.Context, err error) error {
	text := err.Error()
	if safe := redact(text); safe != text {
		return errors.New(safe)
	}
	if strings.Contains(text, "did you mean") {
		return err
	}
	at := trace.Selected()
	if at == nil {
		at = m.app.Node
	}
	if given, ok := strings.CutPrefix(text, "unknown flag --"); ok {
		visible := map[string]bool{}
		for _, group := range at.AllFlags(true) {
			for _, flag := range group {
				visible[flag.Name] = true
			}
		}
		if guess := suggest(given, keys(visible)); guess != "" {
			return fmt.Errorf("%w, did you mean \"--%s\"?", err, guess)
		}
		if owners := m.owners(given); owners != "" {
			return fmt.Errorf("%w; it is a flag of %s", err, owners)
		}
	}
	if given, ok := strings.CutPrefix(text, "unexpected argument "); ok {
		var names []string
		for _, child := range at.Children {
			if !child.Hidden {
				names = append(names, child.Name)
			}
		}
		return fmt.Errorf("%w%s", err, didYouMean(given, names))
	}
	return err
}
