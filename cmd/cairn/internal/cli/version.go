package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/cairn-id/cairn/store"
)

// .ci/build sets these at link time. Otherwise go build records version and commit, unless it runs
// in a git worktree. date is the date of the commit, for the manual page.
var Version, commit, Date string

type VersionCommand struct {
	Format string `name:"output" short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// build describes a build of the program.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" if unknown
	Go       string `json:"go"`
	SQLite   string `json:"sqlite"`
	Platform string `json:"platform"`
}

// Run prints the version, the commit if known, and the toolchain.
func (c VersionCommand) Run(p *Program) error {
	if c.Format == "json" {
		return WriteJSON(p.Stdout, ThisBuild())
	}
	_, err := fmt.Fprintln(p.Stdout, VersionLine())
	return err
}

func VersionLine() string {
	b := ThisBuild()
	words := []string{"cairn", b.Version}
	if b.Commit != "" && !strings.Contains(b.Version, b.Commit[:min(7, len(b.Commit))]) { // git describe names it too
		words = append(words, "commit", b.Commit)
	}
	return strings.Join(append(words, b.Go, "SQLite", b.SQLite, b.Platform), " ")
}

func ProgramVersion() string { return ThisBuild().Version }

func ThisBuild() build {
	b := build{
		Version: Version, Commit: commit, Go: runtime.Version(),
		SQLite: store.SQLiteVersion(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if ok && b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version // ends in +dirty if files were changed since the commit
	}
	if ok && b.Commit == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}
