package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// CheckNewFile returns an error if a file cannot be created at path, or if the service could not
// open it there.
func CheckNewFile(what, path string) error {
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %s for %s: create it first, or name another place", folder, what)
	}
	if name := ownerBesideRoot(folder); name != "" {
		return fmt.Errorf("%s is the folder of the user %s, who could not open %s if root created it there: "+
			"run this as that user, as with sudo -u %s", folder, name, what, name)
	}
	return nil
}

func Exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func SamePath(a, b string) bool {
	fullA, errA := filepath.Abs(a)
	fullB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && fullA == fullB
}
