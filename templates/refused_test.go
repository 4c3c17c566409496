package templates

import (
	"os"
	"strings"
	"testing"
)

// What an administrator is told has a reason of the log, for which the operator finds more.
func TestExplainedReasonsAreThoseOfTheLog(t *testing.T) {
	doc, err := os.ReadFile("../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for reason := range refusals {
		if !strings.Contains(string(doc), "`"+reason+"`") {
			t.Errorf("%s is no reason of docs/troubleshooting.md", reason)
		}
	}
}
