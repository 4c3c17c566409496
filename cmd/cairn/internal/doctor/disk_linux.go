package doctor

import (
	"fmt"
	"syscall"
)

// fileSystem is what is known of the one that a folder is on, in bytes.
type fileSystem struct {
	free, total int64
	kind        int64 // as statfs(2) numbers it
}

func statFS(folder string) (fileSystem, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return fileSystem{}, fmt.Errorf("the file system of %s does not say: %w", folder, err)
	}
	size := int64(s.Bsize)
	return fileSystem{free: int64(s.Bavail) * size, total: int64(s.Blocks) * size, kind: int64(s.Type) & 0xffffffff}, nil // #nosec G115 -- disks are smaller
}

// writable checks that files can be made in a folder.
func writable(folder string) error {
	const writeAndSearch = 2 | 1
	if err := syscall.Access(folder+"/", writeAndSearch); err != nil { // the slash: of a folder only
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// networkFS names the file systems of other machines; that of FUSE may be one.
func networkFS(kind int64) string {
	return map[int64]string{
		0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x517b: "SMB", 0x65735546: "FUSE", 0x01021997: "9P", 0x00c36400: "Ceph", 0x5346414f: "AFS", 0x0bd00bd0: "Lustre", 0x01161970: "GFS2", 0x7461636f: "OCFS2",
	}[kind]
}
