package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/cairn-id/cairn"

// allowed says which of our packages may import which; "" stands for none. A
// new edge is a deliberate line here, with its reason in the commit.
var allowed = map[string][]string{
	"cmd/cairn":       {"account", "account/session", "activityschema", "activityschema/reference", "admin", "config", "provider", "store", "templates"},
	"store":           {"account", "provider"},
	"store/storetest": {"account", "provider", "store"},
	"admin":           {"account", "templates"},
	"provider":        {"account", "templates"},
	"account":         {"account/session", "templates"},
	"account/session": {},
	"templates":       {},
	"config":          {},
	"activityschema":  {},

	"activityschema/reference": {"activityschema"},
}

// reserved names the packages that alone may import a library of others.
var reserved = map[string][]string{
	"gorm.io/":                      {"store"},
	"github.com/ory/fosite":         {"provider", "store"},
	"github.com/qri-io/jsonschema":  {"activityschema/reference"},
	"github.com/go-jose/go-jose/v3": {},
}

func TestNoPackageImportsAgainstTheArrows(t *testing.T) {
	for name, imports := range goList(t, `{{.ImportPath}} {{join .Imports " "}}`) {
		permitted, known := allowed[name]
		if !known {
			t.Errorf("package %s has no line in the table of arrows", name)
		}
		for _, path := range imports {
			if ours, ok := strings.CutPrefix(path, module+"/"); ok && !slices.Contains(permitted, ours) {
				t.Errorf("%s must not import %s", name, ours)
			}
			for prefix, owners := range reserved {
				if strings.HasPrefix(path, prefix) && !slices.Contains(owners, name) {
					t.Errorf("%s must not import %s", name, path)
				}
			}
		}
	}
}

// Other applications import account/session: whatever it needs, they get.
func TestSessionPackageNeedsOnlyTheStandardLibraryAndJose(t *testing.T) {
	for _, path := range goList(t, `{{.ImportPath}} {{join .Deps " "}}`)["account/session"] {
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") && !strings.HasPrefix(path, "github.com/go-jose/go-jose/v4") && !strings.HasPrefix(path, module+"/account/session") {
			t.Errorf("account/session needs %s", path)
		}
	}
}

// Publishers import activityschema: it brings no network with it.
func TestActivitySchemaNeedsOnlyTheStandardLibraryAndJSON(t *testing.T) {
	for _, path := range goList(t, `{{.ImportPath}} {{join .Deps " "}}`)["activityschema"] {
		first, _, _ := strings.Cut(path, "/")
		if path == "net/http" || strings.Contains(first, ".") && !strings.HasPrefix(path, "github.com/go-json-experiment/json") {
			t.Errorf("activityschema needs %s", path)
		}
	}
}

// goList runs a template over our packages: name -> words after it.
func goList(t *testing.T, template string) map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", template, module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		packages[strings.TrimPrefix(words[0], module+"/")] = words[1:]
	}
	if len(packages) < 8 {
		t.Fatalf("go list found only %d packages", len(packages))
	}
	return packages
}
