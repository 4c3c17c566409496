//go:build !linux

package config

// onlyOursByACL is false: the bits of the mode are taken as they are.
func onlyOursByACL(string, int) bool { return false }
