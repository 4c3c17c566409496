// Package racetest lets a test say that the race detector has nothing to find in it.
package racetest

import "testing"

// Skip skips a test under the race detector, which makes it many times slower. It is for tests in
// which nothing concurrent happens: one goroutine that reads documents, pages, texts or much of a
// database, and commands that are processes of their own. They have to pass without the detector.
func Skip(t testing.TB) {
	t.Helper()
	if enabled {
		t.Skip("nothing concurrent happens here for the race detector to find")
	}
}
