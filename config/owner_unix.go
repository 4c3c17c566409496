//go:build unix

package config

import (
	"os"
	"syscall"
)

// OwnFile reports whether a file belongs to the user who runs the program.
func OwnFile(info os.FileInfo) bool { return owner(info) == os.Geteuid() }

// OwnedByRoot reports whether a file belongs to root.
func OwnedByRoot(info os.FileInfo) bool { return owner(info) == 0 }

// owner returns the user id of a file's owner, or -1 if it is not known.
func owner(info os.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
