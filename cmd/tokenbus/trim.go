package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Trimming: the heap may grow to several times what lives, which is cheap under
// load and a waste when the load is gone.
const (
	trimEvery   = 5 * time.Second
	trimGarbage = 4 << 20 // bytes that are worth a collection
)

// trim gives memory back to the system when little is allocated: then a collection
// costs little and the garbage of the last burst would stay for minutes.
func trim(ctx context.Context) error {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	var before uint64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			metrics.Read(s)
			allocs, live, objects := s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64()
			quiet := allocs-before < max(live, trimGarbage)
			if quiet && objects > live+max(live/2, trimGarbage) {
				debug.FreeOSMemory()
			}
			before = allocs
		}
	}
}
