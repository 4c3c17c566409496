// Package disk describes the file systems that the files of an installation are on, and whether
// there is room to write.
package disk

import (
	"math"
	"runtime"
)

// FileSystem describes the file system of a folder.
type FileSystem struct {
	Free  int64 // bytes that this user may still write
	Total int64 // bytes
	Kind  int64 // f_type of statfs(2)
	// Files and FreeFiles count inodes. Files is 0 where the file system does not limit them.
	Files, FreeFiles int64
}

// networkKinds are the file systems of other machines. FUSE may be one.
var networkKinds = map[int64]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x517b: "SMB", 0x65735546: "FUSE", 0x01021997: "9P",
	0x00c36400: "Ceph", 0x5346414f: "AFS", 0x0bd00bd0: "Lustre", 0x01161970: "GFS2", 0x7461636f: "OCFS2",
}

// Network returns the name of a network file system, or "" for any other.
func (fs FileSystem) Network() string { return networkKinds[fs.Kind] }

// Free returns the number of bytes that this user may still write in a folder. Outside of Linux it
// reports an unlimited disk.
func Free(folder string) (int64, error) {
	if runtime.GOOS != "linux" {
		return math.MaxInt64, nil
	}
	fs, err := Of(folder)
	return fs.Free, err
}
