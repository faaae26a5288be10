package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

type watchCmd struct {
	operatorFlags
	Since time.Duration `help:"Begin with the events of so long ago." default:"0s"`
	Count int           `help:"End after so many events; 0 never ends." default:"0"`
}

// Examples is printed first by --help.
func (*watchCmd) Examples() string {
	return `tokenbus watch
tokenbus watch --since 1h --json`
}

// Run prints events, one a line, until it is stopped.
func (c *watchCmd) Run(ctx context.Context) error {
	if c.Since < 0 || c.Count < 0 {
		return errors.New("--since and --count: can't be negative")
	}
	return c.with(ctx, "watch", func(ctx context.Context, link *bus.Link) error {
		var since time.Time
		if c.Since > 0 {
			since = time.Now().Add(-c.Since)
		}
		n := 0
		err := link.WatchEvents(ctx, 0, since, func(e bus.Event) error {
			n++
			if c.JSON {
				b, err := json.Marshal(e)
				if err != nil {
					return err
				}
				fmt.Println(string(b))
			} else {
				var text bytes.Buffer
				if json.Compact(&text, e.Data) != nil {
					return nil //nolint:nilerr // not ours
				}
				fmt.Fprintln(os.Stdout, e.Time.Format(time.TimeOnly), e.Kind, e.Model, text.String())
			}
			if n == c.Count {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
}

var errEnough = errors.New("enough")
