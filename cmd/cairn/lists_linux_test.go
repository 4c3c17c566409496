package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

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
		if out := s.must(strings.Fields(c.show)...); !strings.Contains(out, c.shows) {
			t.Errorf("%s lost %s:\n%s", c.asks, c.meanwhile, out)
		}
	}
}
