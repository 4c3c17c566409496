package letter_test

import (
	"os"
	"testing"

	"github.com/cairn-id/cairn/store/storetest"
)

// TestMain stops the database server that TEST_DATABASE=postgres started.
func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }
