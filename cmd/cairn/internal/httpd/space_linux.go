package httpd

import (
	"fmt"
	"syscall"
)

// FreeSpace returns the number of bytes that this user may still write in a folder.
func FreeSpace(folder string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil // #nosec G115 -- disks are smaller
}
