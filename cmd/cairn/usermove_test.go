package main

import (
	"os"
	"strings"
	"testing"
)

// What user export writes, user import reads, with the attributes that the settings declare.
func TestAttributesAreExportedAndImported(t *testing.T) {
	for _, format := range []string{"csv", "json"} {
		from, _ := sqliteShell(t)
		from.must("settings", "set", "attributes", "member_number")
		from.must("user", "add", "bea", "--display-name", "Bea", "--generate-password")
		from.must("user", "set", "bea", "member_number=4711")
		exported := from.must("user", "export", "-o", format)
		to, _ := sqliteShell(t)
		fatalIf(t, os.WriteFile("users", []byte(exported), 0o600))
		if code, printed := to.run("user", "import", "users", "--skip-existing"); code == 0 ||
			!strings.Contains(printed, "is not in the settings of this service") {
			t.Errorf("%s: exit code %d, %s", format, code, printed)
		}
		to.must("settings", "set", "attributes", "member_number")
		to.must("user", "import", "users", "--skip-existing")
		if shown := to.must("user", "show", "bea"); !strings.Contains(shown, "4711") {
			t.Errorf("%s: %s", format, shown)
		}
	}
}
