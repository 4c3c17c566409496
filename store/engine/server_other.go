//go:build !linux

package engine

// FirstServer is always true: only Linux has the lock.
func FirstServer(string) (first bool, release func(), err error) { return true, func() {}, nil }

// Servers is always 0: not known.
func Servers(string) int { return 0 }
