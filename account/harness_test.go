package account_test

import (
	"os"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// TestMain stops the database server that TEST_DATABASE=postgres started.
func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

var must = assert.Must

func same[T comparable](t testing.TB, w any, a, b T) { t.Helper(); assert.Same(t, w, a, b) }
