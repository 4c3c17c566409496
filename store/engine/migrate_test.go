package engine_test

import (
	"testing"

	"github.com/cairn-id/cairn/store/engine"
	"github.com/cairn-id/cairn/store/storetest"
)

// The index of a large table takes longer than any request may.
func TestMigrationTakesAsLongAsItDoes(t *testing.T) {
	service, migrations, err := engine.StatementTimeouts(t.Context(), storetest.NewPostgres(t).DB)
	must(t, err)
	if service != "15s" || migrations != "0" {
		t.Errorf("statement_timeout %s, of migrations %s", service, migrations)
	}
}
