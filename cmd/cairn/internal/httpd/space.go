//go:build linux || darwin || freebsd

package httpd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func freeSpace(folder string) (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil
}
