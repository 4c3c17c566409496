//go:build !linux

package disk

import (
	"errors"
	"os"
)

// Of returns an error: file systems are only examined on Linux.
func Of(string) (FileSystem, error) {
	return FileSystem{}, errors.New("disks are only checked on Linux")
}

// OpenFiles returns 0: the limit is only read on Linux.
func OpenFiles() uint64 { return 0 }

// WritableFile only checks that the file exists.
func WritableFile(file string) error {
	_, err := os.Stat(file)
	return err
}

// Writable only checks that the folder exists.
func Writable(folder string) error {
	_, err := os.Stat(folder)
	return err
}
