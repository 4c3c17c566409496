//go:build unix

package engine_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cairn-id/cairn/store"
)

// A command of root beside a service with a user of its own must not keep that from starting.
func TestLockOfRootIsTheServicesToo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can")
	}
	const service = 65534
	folder := t.TempDir()
	must(t, os.Chown(folder, service, service))
	database := filepath.Join(folder, "cairn.db")
	release, err := store.Use(t.Context(), database, false)
	must(t, err)
	release()
	info, err := os.Stat(database + ".lock")
	must(t, err)
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != service || info.Mode().Perm() != 0o600 {
		t.Errorf("the lock is uid %d's, mode %o", s.Uid, info.Mode())
	}
}
