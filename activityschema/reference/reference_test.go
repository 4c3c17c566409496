package reference_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cairn-id/cairn/activityschema/reference"
	"github.com/cairn-id/cairn/store/storetest/assert"
)

// The corpus of package activityschema, whose tests and fuzz targets hold the two
// implementations against one another.
func TestReferenceAgreesWithTheCorpus(t *testing.T) {
	for folder, want := range map[string]bool{"valid": true, "lint": true, "invalid": false} {
		names, err := filepath.Glob(filepath.Join("..", "testdata", folder, "*.json"))
		if err != nil || len(names) < 18 {
			t.Fatalf("%d documents in %s, %v", len(names), folder, err)
		}
		var work sync.WaitGroup // the first use of the library must not race
		for _, name := range names {
			data, err := os.ReadFile(name)
			must(t, err)
			work.Go(func() {
				if got, err := reference.Valid(t.Context(), data); err != nil || got != want {
					t.Errorf("%s: %t, %v, want %t", name, got, err, want)
				}
			})
		}
		work.Wait()
	}
}

func TestReferenceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := reference.Valid(ctx, []byte("{}"))
	fails(t, "error", err, context.Canceled)
}

var fails, must = assert.Fails, assert.Must
