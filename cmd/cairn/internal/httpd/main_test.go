package httpd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
)

// testDir is for what all tests of the package share.
var testDir string

func TestMain(m *testing.M) { os.Exit(mainWithFolder(m)) }

func mainWithFolder(m *testing.M) int {
	var err error
	if testDir, err = os.MkdirTemp("", "cairn-test"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(testDir) }()
	return storetest.Main(m)
}

// programFile is the command cairn, for the tests that run it beside the service or
// instead of the one in this process.
var programFile = sync.OnceValue(func() string {
	file := filepath.Join(testDir, "bin", "cairn")
	if out, err := exec.Command("go", "build", "-o", file, "../..").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build cairn: %v: %s", err, out))
	}
	return file
})

// programPath is the variable PATH with the folder of the program first.
func programPath() string {
	return "PATH=" + filepath.Dir(programFile()) + string(os.PathListSeparator) + os.Getenv("PATH")
}

// Exit codes of the commands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// cairn runs a command that ends with the exit code want, and returns what it printed.
func cairn(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.CommandContext(t.Context(), programFile(), args...)
	c.Env, c.Stdout, c.Stderr = []string{}, &out, &errs
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok || c.ProcessState.ExitCode() != want {
		t.Fatalf("cairn %s: %v %v, want the exit code %d: %s%s", strings.Join(args, " "), err, exit, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

func isPostgres(dsn string) bool { return strings.HasPrefix(dsn, "postgres") }
