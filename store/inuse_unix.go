//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// lockPath locks a file, which is made where it is missing. The system drops the lock with
// the process.
func lockPath(path string, alone bool) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
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
