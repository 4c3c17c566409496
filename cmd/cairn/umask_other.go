//go:build !unix

package main

// ownerOnly does nothing where there is no umask.
func ownerOnly() {}

func ownerBesideRoot(string) string { return "" }
