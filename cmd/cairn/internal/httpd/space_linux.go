package httpd

import (
	"fmt"
	"syscall"
)

// FileSystemOf returns the file system of a folder.
func FileSystemOf(folder string) (FileSystem, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return FileSystem{}, fmt.Errorf("the file system of %s: %w", folder, err)
	}
	size := int64(s.Bsize)
	free, total := int64(s.Bavail)*size, int64(s.Blocks)*size // #nosec G115 -- disks are smaller
	return FileSystem{Free: free, Total: total, Kind: int64(s.Type) & 0xffffffff}, nil
}
