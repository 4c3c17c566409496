package engine

import (
	"errors"
	"os"
	"syscall"
)

// F_OFD_GETLK and F_OFD_SETLK of fcntl(2): locks of an open file, not of the process. They have nothing to
// do with the lock of Use on the same file.
const getOpenFileLock, setOpenFileLock = 36, 37

// serverSlots is how many services are counted. Each locks a byte of the file.
const serverSlots = 8

func slotLock(i int64) *syscall.Flock_t {
	return &syscall.Flock_t{Type: syscall.F_WRLCK, Start: i, Len: 1}
}

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
	before := heldSlots(f)
	for i := range int64(serverSlots) {
		err = syscall.FcntlFlock(f.Fd(), setOpenFileLock, slotLock(i))
		if err == nil {
			return before == 0 && i == 0, func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES) {
			_ = f.Close()
			return false, nil, err
		}
	}
	return false, func() {}, f.Close()
}

// Servers returns how many services have the SQLite file at dsn open, 0 if that is not known.
func Servers(dsn string) int {
	if IsPostgres(dsn) {
		return 0
	}
	f, err := os.OpenFile(lockFile(dsn), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	return heldSlots(f)
}

func heldSlots(f *os.File) (n int) {
	for i := range int64(serverSlots) {
		lock := slotLock(i)
		if syscall.FcntlFlock(f.Fd(), getOpenFileLock, lock) == nil && lock.Type != syscall.F_UNLCK {
			n++
		}
	}
	return n
}
