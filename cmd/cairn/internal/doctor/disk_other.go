//go:build !linux

package doctor

import (
	"errors"
	"os"
)

type fileSystem struct {
	free, total int64
	kind        int64
}

func statFS(string) (fileSystem, error) {
	return fileSystem{}, errors.New("disks are only checked on Linux")
}

// writable only checks that the folder exists.
func writable(folder string) error {
	_, err := os.Stat(folder)
	return err
}

func networkFS(int64) string { return "" }
