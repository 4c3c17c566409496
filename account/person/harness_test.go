package person_test

import (
	"os"
	"testing"

	"github.com/cairn-id/cairn/store/accounttest"
	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

const (
	password    = accounttest.Password
	newPassword = accounttest.NewPassword
)

// TestMain stops the database server that TEST_DATABASE=postgres started.
func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }

func sameList[T comparable](t testing.TB, w any, a, b []T) { t.Helper(); assert.SameList(t, w, a, b) }
