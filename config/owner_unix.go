//go:build unix

package config

import (
	"os"
	"syscall"
)

// OwnFile reports whether a file belongs to the user who runs the program.
func OwnFile(info os.FileInfo) bool { return owner(info) == os.Geteuid() }

// owner is the user id of a file's owner, -1 where it is not known.
func owner(info os.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
