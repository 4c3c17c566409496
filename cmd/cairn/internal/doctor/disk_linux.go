package doctor

import (
	"fmt"
	"syscall"
)

// writable checks that files can be created in a folder.
func writable(folder string) error {
	const writeAndSearch = 2 | 1
	if err := syscall.Access(folder+"/", writeAndSearch); err != nil { // the slash requires a folder
		return fmt.Errorf("%s: %w", folder, err)
	}
	return nil
}

// networkKinds are the file systems of other machines. FUSE may be one.
var networkKinds = map[int64]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x517b: "SMB", 0x65735546: "FUSE", 0x01021997: "9P",
	0x00c36400: "Ceph", 0x5346414f: "AFS", 0x0bd00bd0: "Lustre", 0x01161970: "GFS2", 0x7461636f: "OCFS2",
}

// networkFS returns the name of a network file system, or "" for any other.
func networkFS(kind int64) string { return networkKinds[kind] }
