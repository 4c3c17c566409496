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

// Bounds in bytes of what is read: of a file with a secret or a key, and of one with settings or a chain.
const (
	maxSecretFile = 64 << 10
	maxTextFile   = 1 << 20
)

// readFile reads a file of at most limit bytes and reports its mode and owner, taken from the opened file so that they
// belong to what was read.
func readFile(path string, limit int64) ([]byte, os.FileInfo, error) {
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

// openTo tells whether a file's mode gives the bits to others than its owner. On Windows modes say nothing.
func openTo(mode os.FileMode, bits os.FileMode) bool {
	return runtime.GOOS != "windows" && mode.Perm()&bits != 0
}

func openProblem(path string, mode os.FileMode) string {
	return fmt.Sprintf("%s is open to other users of the machine (mode %04o)", path, mode.Perm())
}

// createFile makes a file that only its owner can read, whole and on the disk or not at all. It never overwrites: an
// existing path is an error that wraps os.ErrExist.
func createFile(path string, text []byte) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	// A new name for the finished file, which fails where the name is taken.
	err = os.Link(f.Name(), path)
	if err != nil && !errors.Is(err, os.ErrExist) {
		err = createWithoutLink(path, text) // some file systems have no links
	}
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	return syncFolder(folder)
}

// createWithoutLink is createFile where a power loss may leave a part of the file.
func createWithoutLink(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// syncFolder makes the new name survive a power loss, not only the contents.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("writing the folder to the disk: %w", err)
	}
	return nil
}

// ShellQuote writes a word so that it can be pasted into a shell.
func ShellQuote(s string) string {
	if s != "" && allIn(s, pathCharacters+":=@,+") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellQuote makes a path safe to paste behind chmod.
func shellQuote(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return ShellQuote(path)
}
