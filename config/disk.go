package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Size limits in bytes: of a file with a secret or a key, and of one with settings or a chain.
const (
	maxSecretFile = 64 << 10
	maxTextFile   = 1 << 20
)

// readSetting is readFile for the setting of that name.
func readSetting(name, path string, limit int64) ([]byte, os.FileInfo, error) {
	text, info, err := readFile(path, limit)
	if err != nil {
		return nil, nil, refuse(name, "check the path, and that the service's user may read the file", "%w", err)
	}
	return text, info, nil
}

// readFile reads a file of at most limit bytes and reports its mode and owner, taken from the opened file so that they
// belong to what was read.
func readFile(path string, limit int64) ([]byte, os.FileInfo, error) {
	if strings.HasPrefix(path, credentials) {
		return nil, nil,
			fmt.Errorf("cannot be read: only systemd sets CREDENTIALS_DIRECTORY, for the service alone: name "+
				"another file for this command, with the flag of the setting, instead of %s", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be read: %w", err)
	}
	if info.IsDir() {
		return nil, nil, fmt.Errorf("cannot be read: %s is a folder", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot be read: %w", err)
	}
	if int64(len(text)) > limit {
		return nil, nil, fmt.Errorf("cannot be read: %s is longer than %d bytes", path, limit)
	}
	return text, info, nil
}

// OpenTo reports whether a file's mode gives the bits to others than its owner. On Windows modes
// mean nothing.
func OpenTo(mode os.FileMode, bits os.FileMode) bool {
	return runtime.GOOS != "windows" && mode.Perm()&bits != 0
}

// CheckWriters refuses a file that others than its owner may write, and one in a folder in which every user may put
// another file, or another folder, in its place; of a folder, one into which every user may put files. Who names a
// file trusts its owner, but in a folder as /tmp anybody may have made it first: there it belongs to root or to the
// program's user. A device, as a terminal, is nobody's file.
func CheckWriters(path string, info os.FileInfo) error {
	if info.Mode()&os.ModeDevice != 0 {
		return nil
	}
	if !info.IsDir() && OpenTo(info.Mode(), 0o022) {
		return fmt.Errorf("other users of the machine may write it (mode %04o): run chmod go-w %s",
			info.Mode().Perm(), shellQuote(path))
	}
	if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") { // a pipe of the shell
		return nil
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	target, err := filepath.EvalSymlinks(whole) // the folder of a link counts too
	if err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if info.IsDir() && OpenTo(info.Mode(), 0o002) && !readOnly(target) {
		return fmt.Errorf("other users of the machine may put files into it (mode %04o): run chmod o-w %s",
			info.Mode().Perm(), shellQuote(path))
	}
	for _, file := range []string{whole, target} {
		for folder := filepath.Dir(file); folder != file; file, folder = folder, filepath.Dir(folder) {
			above, err := os.Stat(folder)
			if err != nil || !OpenTo(above.Mode(), 0o002) || readOnly(folder) {
				continue
			}
			if above.Mode()&os.ModeSticky == 0 {
				return fmt.Errorf("other users of the machine may write its folder %s (mode %04o), and put another "+
					"file in its place: run chmod o-w %s", folder, above.Mode().Perm(), shellQuote(folder))
			}
			if entry, err := os.Lstat(file); err == nil && owner(entry) > 0 && !OwnFile(entry) {
				return fmt.Errorf("%s belongs to another user (uid %d), in a folder into which every user may put it: "+
					"copy it to another folder, or run chown -h root %s", file, owner(entry), shellQuote(file))
			}
		}
	}
	return nil
}

// checkPrivate refuses a file with a secret or a key that others than its owner can open. If a file
// has an ACL, the group bits are only its mask: systemd's credentials have mode 0440 and belong to
// root, and the ACL lets only the service's user read them.
func checkPrivate(name, path string, info os.FileInfo) error {
	if OpenTo(info.Mode(), 0o077) && (OpenTo(info.Mode(), 0o007) || !onlyOursByACL(path, owner(info))) {
		return refuse(name, "run chmod 600 "+shellQuote(path), "%s is open to other users of the machine (mode %04o)",
			path, info.Mode().Perm())
	}
	return nil
}

// createFile creates a file that only its owner can read, completely and on the disk or not at all.
// It never overwrites: an existing path is an error that wraps os.ErrExist.
func createFile(path string, text []byte) error {
	return CreateFile(path, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// CreateFile creates a file that only its owner can read, with what fill writes, completely and on
// the disk or not at all. While fill runs the file has another name, which begins with a dot. It
// never overwrites: an existing path is an error that wraps os.ErrExist.
func CreateFile(path string, fill func(f *os.File) error) error {
	return CreateFileIn(filepath.Dir(path), path, fill)
}

// CreateFileIn is CreateFile with the unfinished file in another folder of the same file system.
func CreateFileIn(folder, path string, fill func(f *os.File) error) error {
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = fill(f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	// A second name for the finished file, which fails if the name is taken.
	if err = os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) { // some file systems have no links
		var claim *os.File
		if claim, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			err = errors.Join(claim.Close(), os.Rename(f.Name(), path))
		}
	}
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	return SyncFolder(path)
}

// SyncFolder makes the entry of a file in its folder survive a power loss.
func SyncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// ShellQuote quotes a word for a shell.
func ShellQuote(s string) string {
	if s != "" && allIn(s, pathCharacters+":=@,+") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellQuote quotes a path as an argument of chmod.
func shellQuote(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return ShellQuote(path)
}
