package provider

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// An operator finds the remedy for each reason of the log in the table of troubleshooting.md, and
// nothing there that is never logged.
func TestEveryReasonHasARemedy(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	must(t, err)
	doc, err := os.ReadFile("../docs/troubleshooting.md")
	must(t, err)
	_, table, found := strings.Cut(string(doc), "| `reason` |")
	if !found {
		t.Fatal("troubleshooting.md has no table of reasons")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`reason = "([a-z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		known[m[1]] = true
	}
	if len(known) < 50 {
		t.Fatalf("read only %d reasons", len(known))
	}
	listed := map[string]bool{}
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(first, -1) {
			listed[m[1]] = true
		}
	}
	for name := range known {
		if !listed[name] {
			t.Errorf("no remedy for the reason %s", name)
		}
	}
	for name := range listed {
		if !known[name] {
			t.Errorf("a remedy for %s, which is never logged", name)
		}
	}
}
