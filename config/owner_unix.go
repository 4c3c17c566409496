//go:build unix

package config

import (
	"os"
	"syscall"
)

// owner is the user id of a file's owner, -1 where it is not known.
func owner(info os.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
