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
	trimLook = time.Second     // between looks
	trimRest = 5 * time.Second // between collections
	trimMin  = 2 << 20         // bytes that are worth one
	trimCalm = 512 << 10       // bytes allocated between two looks that are little
)

// trim gives memory back to the system when little is allocated: then a collection
// costs little, and what the last burst left would stay for minutes.
func trim(ctx context.Context) error {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	t := time.NewTicker(trimLook)
	defer t.Stop()
	var before uint64
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-t.C:
			metrics.Read(s)
			allocs, live, objects, free := s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64(), s[3].Value.Uint64()
			quiet := allocs-before < max(live/8, trimCalm)
			before = allocs
			if quiet && objects+free > live+max(live/4, trimMin) && now.Sub(last) >= trimRest {
				last = now
				debug.FreeOSMemory()
			}
		}
	}
}
