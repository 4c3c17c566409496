package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// On a disk of 96 MB with 40 MB left, a backup would leave the service no room to write.
func TestBackupLeavesRoomForTheService(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s, _ := sqliteShell(t)
	database := filepath.Join(dir, "cairn.db")
	s.must("backup", "first.tar.gz")
	s.must("restore", "first.tar.gz", "--database", database)
	fatalIf(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 56<<20), 0o600))
	s.refused([]string{"no backup was made", "make room"}, "backup", "second.tar.gz", "--database", database)
	fatalIf(t, os.Remove(filepath.Join(dir, "filler")))
	s.must("backup", "second.tar.gz", "--database", database)
	fatalIf(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	s.refused([]string{"let the user of the service write the file and its folder"}, "client", "list", "--database", database)
}
