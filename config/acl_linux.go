package config

import (
	"encoding/binary"
	"os"
	"syscall"
)

// A POSIX ACL in the kernel's format (linux/posix_acl_xattr.h): a version, then entries of tag,
// permissions and id.
const (
	aclVersion = 2
	aclUserObj = 0x01
	aclUser    = 0x02
	aclMask    = 0x10
)

// onlyOursByACL reports whether the ACL of a file that root or the program's user owns gives access
// only to these two.
func onlyOursByACL(path string, owner int) bool {
	if owner != 0 && owner != os.Geteuid() {
		return false
	}
	b := make([]byte, 4<<10)
	n, err := syscall.Getxattr(path, "system.posix_acl_access", b)
	if err != nil || n < 4 || binary.LittleEndian.Uint32(b) != aclVersion {
		return false
	}
	for entry := b[4:n]; len(entry) >= 8; entry = entry[8:] {
		tag, given, id := binary.LittleEndian.Uint16(entry), binary.LittleEndian.Uint16(entry[2:]),
			binary.LittleEndian.Uint32(entry[4:])
		ours := tag == aclUserObj || tag == aclMask || tag == aclUser && int(id) == os.Geteuid()
		if given != 0 && !ours {
			return false
		}
	}
	return true
}
