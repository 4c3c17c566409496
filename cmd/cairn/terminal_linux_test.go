package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
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
		has(t, "lacks", out, want)
	}
	for _, environ := range []string{"NO_COLOR=1", "TERM=dumb"} {
		if out := onTerminal(show, environ); strings.Contains(out, "\x1b") || !strings.Contains(out, "cairn: warning:") {
			t.Errorf("%s: %q", environ, out)
		}
	}
}

// atPrompt calls do when a question is printed, before it is answered.
type atPrompt struct {
	bytes.Buffer
	do func()
}

func (w *atPrompt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "[y/N]") {
		w.do()
	}
	return w.Buffer.Write(b)
}

// What somebody else changes while a question waits for its answer is not overwritten by the answer.
func TestChangeDuringAQuestionIsKept(t *testing.T) {
	s, _ := sqliteShell(t)
	s.must("client", "add", "Wiki", "--id", "wiki", "--redirect-uri", "https://wiki.example.org/cb", "--require-flag", "admin")
	s.must("settings", "set", "flags", "coach", "board")
	s.must("api", "add", "https://api.example.org", "--name", "API", "--scope", "a=See a", "--scope", "b=See b")
	s.must("client", "allow", "https://agents.example.org/*")
	for _, c := range []struct{ asks, meanwhile, show, shows string }{
		{"client update wiki --remove-require-flag admin", "client update wiki --add-redirect-uri https://wiki.example.org/new", "client show wiki", "https://wiki.example.org/new"},
		{"settings set flags coach", "settings set flags --add player", "settings get flags", "activity admin board coach player"},
		{"api update https://api.example.org --scope a=A", "api update https://api.example.org --name Trails", "api show https://api.example.org", "Trails"},
		{"client allow https://agents.example.org/* --scope email", "client allow https://agents.example.org/* --add-scope groups", "client allow", "groups"},
	} {
		master, terminal := openTerminal(t)
		stderr := &atPrompt{do: func() {
			s.must(strings.Fields(c.meanwhile)...)
			if _, err := master.WriteString("y\n"); err != nil {
				t.Error(err)
			}
		}}
		code := Run(t.Context(), strings.Fields(c.asks), s.environ, terminal, &bytes.Buffer{}, stderr)
		if out := stderr.String(); code != cli.ExitFailed || !strings.Contains(out, "was changed meanwhile") {
			t.Errorf("%s: %d %s", c.asks, code, out)
		}
		has(t, fmt.Sprintf("%s lost %s", c.asks, c.meanwhile), s.must(strings.Fields(c.show)...), c.shows)
	}
}
