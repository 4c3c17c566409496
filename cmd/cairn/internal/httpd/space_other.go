//go:build !linux

package httpd

import "errors"

// FileSystemOf returns an error: file systems are only examined on Linux.
func FileSystemOf(string) (FileSystem, error) {
	return FileSystem{}, errors.New("disks are only checked on Linux")
}
