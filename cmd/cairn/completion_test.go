package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/cairn-id/cairn/cmd/cairn/internal/cli"
)

// needCommand fails where CI lacks a program, and skips elsewhere.
func needCommand(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	} else if os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	t.Skip(name + " is not installed")
}

func printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), args, nil, strings.NewReader(""), &out, &errs); code != cli.ExitDone || errs.Len() > 0 {
		t.Fatalf("%v: %d %s", args, code, &errs)
	}
	return out.String()
}

// Each shell reads its script and completes what is typed; the last words of the lines are
// completed by one that fits alone.
func TestShellsCompleteCommandsOptionsAndValues(t *testing.T) {
	typed := []string{"cairn clie", "cairn client ad", "cairn client add --redir", "cairn client add -o js", "cairn client add App --output=ta", "cairn completion fi", "cairn --config some.yaml init --generate-k", "cairn init --password-file secre", "cairn client show wi", "cairn api show urn:tr", "cairn api add urn:x --client wi", "cairn audit list --user ad", "cairn user update ad"}
	want := []string{"cairn client", "cairn client add", "cairn client add --redirect-uri", "cairn client add -o json", "cairn client add App --output=table", "cairn completion fish", "cairn --config some.yaml init --generate-key", "cairn init --password-file secret.txt", "cairn client show wiki", "cairn api show urn:trails", "cairn api add urn:x --client wiki", "cairn audit list --user ada", "cairn user update ada"}
	installed := t.TempDir()
	database, file := filepath.Join(installed, "cairn.db"), filepath.Join(installed, "cairn.yaml")
	printed(t, "init", "--handle=ada", "--generate-password", "--config", file, "--database", database)
	for _, args := range [][]string{{"client", "add", "Wiki", "--id=wiki", "--redirect-uri=https://wiki.example/cb"}, {"api", "add", "urn:maps", "--name=Maps", "--all-clients"}, {"api", "add", "urn:trails", "--name=Trails", "--all-clients"}} {
		printed(t, append(args, "--database", database)...)
	}
	cairn, err := exec.LookPath("cairn") // TestMain puts it there
	fatalIf(t, err)
	lists := "#!/bin/sh\ncase $* in *'client show '*) echo '$(touch ran)' ;; esac\nexec " + cairn + " \"$@\"\n"
	for shell, program := range map[string]string{
		"bash": `source ./script
while read -r line; do
	words=${line//=/ = }
	read -ra COMP_WORDS <<<"${words//:/ : }" # as bash takes the words apart
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
	_cairn
	last=${COMP_WORDS[COMP_CWORD]}
	[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "$last")) # complete -o default
	echo "${line%"$last"}${COMPREPLY[*]}"
done`,
		"fish": `source ./script
while read -l line
	set -l words (string split ' ' -- $line)
	set -l found (complete -C $line | string split -f 1 \t)
	echo (string join ' ' -- $words[1..-2] $found)
end`,
		// A terminal of its own, in which the key is pressed.
		"zsh": `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -D -u; source ./script; cairn() { print -r -- "ran <cairn $*>" }; print rea""dy'
zpty -r -m shell seen '*ready*'
while read -r line; do
	zpty -w shell "$line"$'\t'
	zpty -r -m shell seen '*ran <*>*' && print -r -- "${${seen##*ran <}%%>*}"
done`,
	} {
		t.Run(shell, func(t *testing.T) {
			needCommand(t, shell)
			dir := t.TempDir()
			for name, text := range map[string]string{"script": printed(t, "completion", shell), "program": program, "secret.txt": "", "cairn": lists} {
				fatalIf(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
			}
			args := map[string][]string{"bash": {"--norc", "program"}, "fish": {"--no-config", "program"}, "zsh": {"-f", "program"}}[shell]
			c := exec.CommandContext(t.Context(), shell, args...)
			c.Dir, c.Env = dir, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb", "SERVICE_DATABASE=" + database}
			c.Stdin = strings.NewReader(strings.Join(typed, "\n") + "\n")
			out, err := c.CombinedOutput()
			if got := strings.Split(strings.TrimSpace(string(out)), "\n"); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v:\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
				t.Error("an id was run")
			}
		})
	}
}

func TestManualHasEveryCommandAndNoWarning(t *testing.T) {
	page := printed(t, "man")
	parser, err := kong.New(&commands{}, kong.Name("cairn"), kong.Bind(&cli.Program{}))
	fatalIf(t, err)
	plain := strings.NewReplacer(`\-`, "-", `\(dq`, `"`).Replace(page)
	for _, leaf := range parser.Model.Leaves(true) {
		if !strings.Contains(plain, ".SS \""+leaf.FullPath()) {
			t.Errorf("the page lacks %s", leaf.FullPath())
		}
		for _, f := range leaf.Flags {
			if !f.Hidden && !strings.Contains(plain, `\fB--`+f.Name+`\fP`) {
				t.Errorf("the page lacks --%s of %s", f.Name, leaf.FullPath())
			}
		}
	}
	file := filepath.Join(t.TempDir(), "cairn.1")
	fatalIf(t, os.WriteFile(file, []byte(page), 0o600))
	needCommand(t, "mandoc")
	out, err := exec.CommandContext(t.Context(), "mandoc", "-Tlint", "-W", "warning", file).CombinedOutput()
	// The date is the commit's, which only the release binary knows.
	if text := strings.TrimSpace(string(out)); text != "" && (strings.Count(text, "\n") > 0 || !strings.Contains(text, "missing date")) {
		t.Errorf("mandoc: %v\n%s", err, text)
	}
}
