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
	return FileSystem{Free: free, Total: total, Kind: int64(s.Type) & 0xffffffff,
		Files: int64(s.Files), FreeFiles: int64(s.Ffree)}, nil // #nosec G115 -- disks have fewer
}

// OpenFiles returns how many files and connections this process may have open at once, 0 if that is not
// known. Go raises it to the hard limit when a program starts.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return limit.Cur
}

// WritableFile returns an error if this user cannot write a file.
func WritableFile(file string) error {
	const write = 2
	if err := syscall.Access(file, write); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// Writable returns an error if this user cannot create files in a folder.
func Writable(folder string) error {
	const writeAndSearch = 2 | 1
	if err := syscall.Access(folder+"/", writeAndSearch); err != nil { // the slash requires a folder
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}
