package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a terminal.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	fatalIf(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	fatalIf(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	fatalIf(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return master, terminal
}

// What is printed is colored on a terminal alone, and not if its user wants none.
func TestTerminalShowsColors(t *testing.T) {
	database := filepath.Join(t.TempDir(), "none.db")
	onTerminal := func(args []string, environ ...string) string {
		master, terminal := openTerminal(t)
		Run(t.Context(), args, append(environ, "SERVICE_DATABASE="+database, "SERVICE_DATABSE=x"), nil, terminal, terminal)
		const last = "the end"
		fmt.Fprint(terminal, last)
		for out, some := "", make([]byte, 1<<12); ; {
			n, err := master.Read(some)
			fatalIf(t, err)
			if out += string(some[:n]); strings.HasSuffix(out, last) {
				return out
			}
		}
	}
	show := []string{"client", "show", "wiki"}
	out := onTerminal(show)
	for _, want := range []string{"\x1b[33mcairn: warning:\x1b[0m", "\x1b[1;31mcairn:\x1b[0m "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	for _, environ := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if out := onTerminal(show, environ); strings.Contains(out, "\x1b") || !strings.Contains(out, "cairn: warning:") {
			t.Errorf("%s: %q", environ, out)
		}
	}
}
