//go:build unix

package publish

import (
	"errors"
	"os"
	"syscall"
)

// lockFolder locks a folder itself, so that no lock file is published. The system drops the lock
// with the process. On file systems that cannot lock a folder, it locks nothing.
func lockFolder(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, errInUse
	}
	return func() { _ = f.Close() }, nil
}
