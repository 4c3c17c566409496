//go:build unix

package config

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
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

// readOnly reports whether nobody can write a folder, because of its file system: the folders of a container's
// configuration have mode 0777.
func readOnly(folder string) bool { return errors.Is(unix.Access(folder, unix.W_OK), syscall.EROFS) }
