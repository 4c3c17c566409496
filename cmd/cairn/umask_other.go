//go:build !unix

package main

import "os/exec"

// ownerOnly does nothing where there is no umask.
func ownerOnly() {}

func endAsGroup(*exec.Cmd) {}

func ownerBesideRoot(string) string { return "" }
