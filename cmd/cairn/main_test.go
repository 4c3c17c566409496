package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	passwords "github.com/cairn-id/cairn/account/password"
	"github.com/cairn-id/cairn/cmd/cairn/internal/backupfile"
	"github.com/cairn-id/cairn/store/storetest"
)

// TestMain also makes this test binary the command cairn of the scripts.
func TestMain(m *testing.M) {
	backupfile.WorkFactor = 10
	doctorHasher, _ = passwords.NewTestHasher()
	testscript.Main(suite{m}, map[string]func(){"cairn": main})
}

type suite struct{ m *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int { return storetest.Main(s.m) }

// password of the administrator keeper.
const password = "rambling over 3 hills"
