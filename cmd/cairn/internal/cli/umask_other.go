//go:build !unix

package cli

import (
	"os/exec"
)

// OwnerOnly does nothing where there is no umask.
func OwnerOnly() {}

func EndAsGroup(*exec.Cmd) {}

func ownerBesideRoot(string) string { return "" }
