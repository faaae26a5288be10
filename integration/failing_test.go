package integration

import (
	"strconv"

	"github.com/tokenbus/tokenbus/agent/sim"
)

// failing makes the engine answer a request that names it in X-Sim-Script with a
// status of its own; header are name, value pairs.
func failing(name string, status int, body string, header ...string) sim.Fault {
	f := sim.Fault{Kind: sim.FailStatus, Name: name, Status: status, Body: body, Headers: map[string]string{}}
	for i := 0; i < len(header); i += 2 {
		f.Headers[header[i]] = header[i+1]
	}
	return f
}

func itoa(n int) string { return strconv.Itoa(n) }

func piecesOf(text string, delayMS int64) []sim.Piece {
	return []sim.Piece{{Text: text, DelayMS: delayMS}}
}
