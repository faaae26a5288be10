//go:build !unix

package main

// lockDir does nothing where there is no advisory lock: there, it is up to the
// operator to give each process a directory of its own.
func lockDir(*parts, string) error { return nil }
