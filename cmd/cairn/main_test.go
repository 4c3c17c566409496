package main

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/store/storetest"
)

// TestMain also makes this test binary the command cairn of the scripts.
func TestMain(m *testing.M) {
	backupfile.WorkFactor = 10
	testscript.Main(suite{m}, map[string]func(){"cairn": main})
}

type suite struct{ m *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int { return storetest.Main(s.m) }

// git describe names the commit in the version already.
func TestVersionNamesTheCommitOnce(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	commit = "a44abe379133c7a4043103d393e0083f5698498a"
	for v, want := range map[string]int{"a44abe3": 1, "a44abe3-dirty": 1, "v1.2.3-4-ga44abe3": 1, "v1.2.3": 1, "v0.0.0-20261122-a44abe379133": 1} {
		version = v
		if line := versionLine(); strings.Count(line, "a44abe3") != want || !strings.HasPrefix(line, "cairn "+v+" ") {
			t.Errorf("%s: %s", v, line)
		}
	}
}

// password of the administrator keeper.
const password = "rambling over 3 hills"
