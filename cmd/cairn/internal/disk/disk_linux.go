package disk

import (
	"fmt"
	"syscall"
)

// Of returns the file system of a folder.
func Of(folder string) (FileSystem, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return FileSystem{}, fmt.Errorf("the file system of %s: %w", folder, err)
	}
	size := int64(s.Bsize)
	free, total := int64(s.Bavail)*size, int64(s.Blocks)*size // #nosec G115 -- disks are smaller
	return FileSystem{Free: free, Total: total, Kind: int64(s.Type) & 0xffffffff}, nil
}

// Writable returns an error if this user cannot create files in a folder.
func Writable(folder string) error {
	const writeAndSearch = 2 | 1
	if err := syscall.Access(folder+"/", writeAndSearch); err != nil { // the slash requires a folder
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}
