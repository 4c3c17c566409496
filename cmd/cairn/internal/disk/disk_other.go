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

// Writable only checks that the folder exists.
func Writable(folder string) error {
	_, err := os.Stat(folder)
	return err
}
