//go:build unix

package engine

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lockPath locks a file, which it creates if it is missing. It does not follow a link. The system
// drops the lock with the process.
func lockPath(path string, alone bool) (release func(), err error) {
	const flags = os.O_RDWR | syscall.O_NOFOLLOW
	f, err := os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, os.ErrExist):
		f, err = os.OpenFile(path, flags, 0)
	case err == nil:
		err = chownToFolder(f)
	}
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// chownToFolder gives a file that root has created to the owner of its folder, so that the service
// can lock it too.
func chownToFolder(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	folder, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if s, ok := folder.Sys().(*syscall.Stat_t); ok && s.Uid != 0 {
		_ = f.Chown(int(s.Uid), int(s.Gid)) // not every file system can
	}
	return nil
}
