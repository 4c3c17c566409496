package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// parsers read what strangers, members and other programs send. Each has a target that takes what it reads the rest
// of its path; `just fuzz` runs them all.
var parsers = map[string]string{
	"account CanonicalCode":                  "account FuzzCanonicalCode",
	"account CanonicalHandle":                "account FuzzCanonicalHandle",
	"account CheckEmail":                     "account/mail FuzzAddress",
	"account/passkey provePasskey":           "account/site FuzzPasskey",
	"account/person openDeviceProof":         "account/site FuzzDeviceProof",
	"account/picture Square":                 "account/picture FuzzSquare", // with its orientation
	"account/roster ReadList":                "admin FuzzListsOfPeople",
	"account/roster ReadPasted":              "admin FuzzListsOfPeople",
	"account/session Verify":                 "account/session FuzzVerify", // cookies
	"account/session claims":                 "account/session FuzzClaims",
	"account/session readStatusList":         "account/session FuzzStatusList",
	"account/site returnTo":                  "account/site FuzzReturnAddress", // of forward authentication
	"account/web BrowserAndSystem":           "account/site FuzzReturnAddress", // User-Agent
	"account/web LocalPath":                  "account/site FuzzLocalPath",
	"account/web OpenDated":                  "provider FuzzOnlyOurOwnValuesOpen", // sealed values
	"activityschema Decode":                  "activityschema FuzzValidate FuzzChangedDocument FuzzLint",
	"activityschema/publish Read":            "activityschema/publish FuzzGPX FuzzTCX FuzzFIT",
	"cmd/cairn/internal/httpd clientAddress": "cmd/cairn/internal/httpd FuzzClientAddress", // X-Forwarded-For
	"config parseConfig":                     "config FuzzFilesAreReadOrRefusedInOneLine",
	"provider hint":                          "provider FuzzNothingButOurOwnTokenIsAHint",
	"provider matchRedirect":                 "provider FuzzMatchedRedirectAlwaysHasARegisteredHost",
	"provider parseClaims":                   "provider FuzzClaimsParameter",
	"provider readAssertion":                 "provider FuzzAssertion",
	"provider readDocument":                  "provider FuzzMetadataDocument",
	"provider readProof":                     "provider FuzzProof",
	"templates PickLanguage":                 "account/site FuzzReturnAddress", // Accept-Language
}

var funcForm = regexp.MustCompile(`(?m)^func (?:\([^)]*\) )?(\w+)[(\[]`)

func TestParsersHaveTheirFuzzTargets(t *testing.T) {
	named := map[string]bool{}
	for parser, targets := range parsers {
		folder, name, _ := strings.Cut(parser, " ")
		if !slices.Contains(functions(t, folder, false), name) {
			t.Errorf("there is no %s", parser)
		}
		folder, names, _ := strings.Cut(targets, " ")
		for _, target := range strings.Fields(names) {
			named[folder+" "+target] = true
			if !slices.Contains(functions(t, folder, true), target) {
				t.Errorf("%s: there is no %s %s", parser, folder, target)
			}
		}
	}
	for folder := range goList(t, `{{.ImportPath}}`) {
		for _, name := range functions(t, folder, true) {
			if strings.HasPrefix(name, "Fuzz") && !named[folder+" "+name] {
				t.Errorf("no parser has %s %s", folder, name)
			}
		}
	}
}

// functions are those of the files of a folder, of its tests or of the others.
func functions(t *testing.T, folder string, tests bool) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../" + folder + "/*.go")
	fatalIf(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") == tests {
			source, err := os.ReadFile(file)
			fatalIf(t, err)
			for _, found := range funcForm.FindAllStringSubmatch(string(source), -1) {
				names = append(names, found[1])
			}
		}
	}
	return names
}
