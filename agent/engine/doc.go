// Package engine knows the kinds of engine that an agent can stand beside: how each is
// found, asked for its health and its models, what it says of itself, and under which
// names it shows its metrics. One file is one kind.
package engine
