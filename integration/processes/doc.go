// Package processes tests Tokenbus as operators run it: the real binary, one
// process a role, over TCP, killed with real signals.
package processes
