package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/cairn-id/cairn/store/storetest"
)

// testDir is for what all tests of the package share.
var testDir string

// TestMain also makes this test binary the command cairn of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"cairn": main})
}

type suite struct{ m *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int {
	var err error
	if testDir, err = os.MkdirTemp("", "cairn-test"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(testDir) }()
	return storetest.Main(s.m)
}
