package httpd

import (
	"math"
	"runtime"
)

// FileSystem describes the file system of a folder.
type FileSystem struct {
	Free  int64 // bytes that this user may still write
	Total int64 // bytes
	Kind  int64 // f_type of statfs(2)
}

// FreeSpace returns the number of bytes that this user may still write in a folder. Outside of
// Linux it reports an unlimited disk.
func FreeSpace(folder string) (int64, error) {
	if runtime.GOOS != "linux" {
		return math.MaxInt64, nil
	}
	fs, err := FileSystemOf(folder)
	return fs.Free, err
}
