package store

import (
	"errors"
	"os"
	"syscall"
)

// setOpenFileLock is F_OFD_SETLK of fcntl(2): a lock of the open file, not of the process. It has nothing
// to do with the lock of Use on the same file.
const setOpenFileLock = 37

// FirstServer reports whether no other service has called it for the SQLite file at dsn and still runs.
// Commands do not count. release ends that. With PostgreSQL there may be any number.
func FirstServer(dsn string) (first bool, release func(), err error) {
	if IsPostgres(dsn) {
		return true, func() {}, nil
	}
	f, err := os.OpenFile(lockFile(dsn), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false, nil, err
	}
	lock := &syscall.Flock_t{Type: syscall.F_WRLCK, Len: 1}
	err = syscall.FcntlFlock(f.Fd(), setOpenFileLock, lock)
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) {
		return false, func() {}, f.Close()
	}
	if err != nil {
		_ = f.Close()
		return false, nil, err
	}
	return true, func() { _ = f.Close() }, nil
}
