package httpd

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
)

// A disk of 48 MB, on which somebody else writes 24.
func TestFullDiskIsNotReady(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { // after the store was closed
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := startService(t, serviceOptions{Store: storetest.Open(t, filepath.Join(dir, "cairn.db"))})
	wantStatus(t, "empty disk", s.readyz("127.0.0.1:1"), http.StatusOK)
	filler := filepath.Join(dir, "filler")
	noError(t, os.WriteFile(filler, make([]byte, 24<<20), 0o600))
	s.wantNotReady("disk", "make room")
	noError(t, os.Remove(filler))
	wantStatus(t, "room was made", s.readyz("127.0.0.1:1"), http.StatusOK)
}

// Somebody copies a backup over the file, or removes it, while the service runs.
func TestReplacedDatabaseFileIsNotReady(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cairn.db")
	s := startService(t, serviceOptions{Store: storetest.Open(t, file)})
	var asked sync.WaitGroup
	for range 64 { // opens all connections: one that is opened later opens the other file, or makes one
		asked.Go(func() { wantStatus(t, "the file of the start", s.readyz("127.0.0.1:1"), http.StatusOK) })
	}
	asked.Wait()
	noError(t, os.Rename(file, file+".old"))
	s.wantNotReady("database", "removed or replaced")
	noError(t, os.WriteFile(file, nil, 0o600))
	s.wantNotReady("database", "removed or replaced")
	same(t, "lines of the log", strings.Count(s.log.String(), `"level":"ERROR","msg":"not ready"`), 1)
	noError(t, os.Rename(file+".old", file))
	wantStatus(t, "it is back", s.readyz("127.0.0.1:1"), http.StatusOK)
}
