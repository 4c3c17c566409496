//go:build !linux

package config

// onlyOursByACL is false: only the mode counts.
func onlyOursByACL(string, int) bool { return false }
