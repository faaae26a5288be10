// Package policy decides which agent gets a request. It is pure: snapshots in, a
// decision out; no clock, no bus, no goroutine.
//
// A policy is a chain of steps. Each step has filters (health, match, gates, room) and
// a strategy that ranks what they leave; see [Pool.Decide]. Operators write policies
// as YAML documents; see [Parse] and [Set].
package policy
