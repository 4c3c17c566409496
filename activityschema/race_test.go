//go:build race

package activityschema_test

// underRace: this is a run under the race detector, which takes ten times as long and
// finds nothing in a test that has one goroutine.
const underRace = true
