package main

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// seeded is a fault to put into a copy of the program.
type seeded struct {
	name, patch                    string
	kind, database, faults, reason string
}

func seededFaults(t *testing.T) (all []seeded) {
	t.Helper()
	files, err := filepath.Glob("testdata/faults/*.patch")
	if err != nil || len(files) < 45 {
		t.Fatalf("%d faults: %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := seeded{name: strings.TrimSuffix(filepath.Base(file), ".patch")}
		head, patch, _ := strings.Cut(string(b), "\n\n")
		s.patch = patch
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			field := map[string]*string{"kind": &s.kind, "database": &s.database, "faults": &s.faults,
				"reason": &s.reason}[name]
			if field == nil {
				t.Fatalf("%s: %q", file, line)
			}
			*field = strings.TrimSpace(value)
		}
		if kinds[s.kind] == nil || s.reason == "" {
			t.Errorf("%s: kind %q, reason %q", file, s.kind, s.reason)
		}
		all = append(all, s)
	}
	return all
}

// apply runs git apply in a folder, which need not be a repository.
func apply(t *testing.T, dir, patch string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"apply"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(patch)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("git apply %v: %v: %s", args, err, out)
	}
}

// copyTree copies the module to a folder.
func copyTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `git ls-files -z --deduplicate | xargs -0 sh -c 'for f; do [ ! -f "$f" ] || printf "%s\\0" "$f"; done' - | xargs -0 cp --parents -t "$0"`, dir)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, out)
	}
	return dir
}

// The program must be able to find faults. Without CAIRN_FAULTS, which names some or is all, only
// that each patch fits the code is checked. CAIRN_FAULTS_PROGRAMS is a folder that keeps the programs
// for the next time.
func TestSeededFaultsAreFound(t *testing.T) {
	wanted, faults := os.Getenv("CAIRN_FAULTS"), seededFaults(t)
	dir := copyTree(t)
	found := 0
	for _, s := range faults {
		apply(t, dir, s.patch, "--check")
		if wanted == "" || wanted != "all" && !slices.Contains(strings.Split(wanted, ","), s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			program, out := filepath.Join(cmp.Or(os.Getenv("CAIRN_FAULTS_PROGRAMS"), t.TempDir()),
				s.name), bytes.Buffer{}
			if _, err := os.Stat(program); err != nil {
				apply(t, dir, s.patch)
				defer apply(t, dir, s.patch, "-R")
				if err := build(t.Context(), dir, program); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			got, err := execute(t.Context(), options{
				program: program, database: s.database, kinds: []string{s.kind}, faults: strings.Split(s.faults,
					","), seed: 1,
				length: 10 * time.Minute, clients: 8, first: true, out: t.TempDir(),
			}, &out)
			if err != nil || got.violations == 0 || !strings.Contains(strings.Join(got.why, "\n"), s.reason) {
				t.Fatalf("not found: %v, %v: %s", err, got.why, out.String())
			}
			t.Logf("found after %s, %d histories: %s", time.Since(began).Round(time.Second/10), got.byKind[s.kind],
				got.why[0])
			found++
		})
	}
	if wanted != "" {
		t.Logf("%d found", found)
	}
}
