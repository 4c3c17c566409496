//go:build !unix

package publish

// lockFolder locks nothing: there is no flock.
func lockFolder(string) (unlock func(), err error) { return func() {}, nil }
