package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cairn-id/cairn/cmd/cairn/internal/doctor"
)

// A file system that became read-only, and one without inodes, as a folder full of sessions of another program makes.
func TestFaultOfTheFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m,nr_inodes=40"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	d := newDeployment(t, "")
	d.options.Offline = true
	must(t, d.store.Close())
	content, err := os.ReadFile(d.dsn)
	must(t, err)
	d.settings.Database = filepath.Join(dir, "cairn.db")
	must(t, os.WriteFile(d.settings.Database, content, 0o600))
	must(t, os.Chmod(dir, 0o700))
	if f := d.findings()["disk-space"]; f.Level != doctor.Warning || !strings.Contains(f.Found, "inodes left, of 40") {
		t.Errorf("%+v", f)
	}
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if f := d.findings()["database-file"]; f.Level != doctor.Problem || !strings.Contains(f.Do, "remount,rw") {
		t.Errorf("%+v", f)
	}
}
