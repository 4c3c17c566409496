package config

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Bounds in bytes of what is read: of a file with a secret or a key, and of one with settings or a chain.
const (
	maxSecretFile = 64 << 10
	maxTextFile   = 1 << 20
)

// readFile reads a file of at most limit bytes and reports its mode, taken from the opened file so that the mode
// belongs to what was read.
func readFile(path string, limit int64) ([]byte, os.FileMode, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("cannot be read: %w", err)
	}
	if info.IsDir() {
		return nil, 0, fmt.Errorf("cannot be read: %s is a folder", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, 0, fmt.Errorf("cannot be read: %w", err)
	}
	if int64(len(text)) > limit {
		return nil, 0, fmt.Errorf("cannot be read: %s is longer than %d bytes", path, limit)
	}
	return text, info.Mode(), nil
}

// openTo tells whether a file's mode gives the bits to others than its owner. On Windows modes say nothing.
func openTo(mode os.FileMode, bits os.FileMode) bool {
	return runtime.GOOS != "windows" && mode.Perm()&bits != 0
}

func openProblem(path string, mode os.FileMode) string {
	return fmt.Sprintf("%s is open to other users of the machine (mode %04o)", path, mode.Perm())
}

// shellQuote makes a path safe to paste behind chmod.
func shellQuote(path string) string {
	if allIn(path, pathCharacters) && !strings.HasPrefix(path, "-") {
		return path
	}
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
