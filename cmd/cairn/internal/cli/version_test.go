package cli

import (
	"strings"
	"testing"
)

// git describe names the commit in the version already.
func TestVersionNamesTheCommitOnce(t *testing.T) {
	defer func(v, c string) { Version, commit = v, c }(Version, commit)
	commit = "a44abe379133c7a4043103d393e0083f5698498a"
	for v, want := range map[string]int{"a44abe3": 1, "a44abe3-dirty": 1, "v1.2.3-4-ga44abe3": 1, "v1.2.3": 1, "v0.0.0-20261122-a44abe379133": 1} {
		Version = v
		if line := VersionLine(); strings.Count(line, "a44abe3") != want || !strings.HasPrefix(line, "cairn "+v+" ") {
			t.Errorf("%s: %s", v, line)
		}
	}
}
