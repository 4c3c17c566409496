//go:build !unix

package engine

// lockPath locks nothing: there is no flock.
func lockPath(string, bool) (release func(), err error) { return func() {}, nil }
