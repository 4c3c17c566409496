package main

import (
	"encoding/json"
	"encoding/xml"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// The members that SARIF 2.1.0 requires, and what its consumers rely on: every
// result names a rule of the run and a place that exists.
func TestSARIFNeverLacksWhatTheStandardRequires(t *testing.T) {
	folder := mixed(t)
	missing := filepath.Join(folder, "missing file.json")
	code, out, _ := validate(t, "-o", "sarif", folder, missing)
	if code != exitUnreadable {
		t.Fatalf("exit code %d", code)
	}
	log := objectOf(t, []byte(out))
	if log["version"] != "2.1.0" || !strings.HasSuffix(textOf(t, log["$schema"]), "/sarif-schema-2.1.0.json") {
		t.Errorf("version %v, schema %v", log["version"], log["$schema"])
	}
	runs := itemsOf(t, log["runs"])
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	r := runs[0].(map[string]any)
	if r["columnKind"] != "unicodeCodePoints" {
		t.Errorf("columnKind %v", r["columnKind"])
	}
	driver := r["tool"].(map[string]any)["driver"].(map[string]any)
	rules := itemsOf(t, driver["rules"])
	ids := map[string]bool{}
	for _, v := range rules {
		rule := v.(map[string]any)
		id := textOf(t, rule["id"])
		if ids[id] || textOf(t, rule["shortDescription"].(map[string]any)["text"]) == "" {
			t.Errorf("rule %v", rule)
		}
		ids[id] = true
		if level := rule["defaultConfiguration"].(map[string]any)["level"]; level != "error" && level != "warning" {
			t.Errorf("rule %s has level %v", id, level)
		}
	}
	if textOf(t, driver["name"]) != "cairn" || textOf(t, driver["version"]) == "" {
		t.Errorf("driver %v", driver)
	}
	results := itemsOf(t, r["results"])
	if len(results) < 200 {
		t.Errorf("%d results", len(results))
	}
	for _, v := range results {
		result := v.(map[string]any)
		index := int(result["ruleIndex"].(float64))
		if index < 0 || rules[index].(map[string]any)["id"] != result["ruleId"] {
			t.Errorf("rule %v is not number %d", result["ruleId"], index)
		}
		if textOf(t, result["message"].(map[string]any)["text"]) == "" || result["level"] != "error" && result["level"] != "warning" {
			t.Errorf("%v", result)
		}
		checkLocation(t, result["locations"], true)
	}
	invocation := itemsOf(t, r["invocations"])[0].(map[string]any)
	notices := itemsOf(t, invocation["toolExecutionNotifications"])
	if invocation["executionSuccessful"] != false || len(notices) != 1 {
		t.Fatalf("invocation %v", invocation)
	}
	notice := notices[0].(map[string]any)
	if notice["level"] != "error" || textOf(t, notice["message"].(map[string]any)["text"]) == "" {
		t.Errorf("notification %v", notice)
	}
	checkLocation(t, notice["locations"], false)
	if strings.Contains(out, "missing file.json") || !strings.Contains(out, "missing%20file.json") {
		t.Error("a path that is no URI")
	}
}

// checkLocation looks at the one location of a result. A region is by line and
// column, from 1, and by byte, and the file there has as many.
func checkLocation(t *testing.T, v any, hasRegion bool) {
	t.Helper()
	locations := itemsOf(t, v)
	physical := locations[0].(map[string]any)["physicalLocation"].(map[string]any)
	u, err := url.Parse(textOf(t, physical["artifactLocation"].(map[string]any)["uri"]))
	if err != nil || len(locations) != 1 || u.Path == "" || u.Scheme != "" && u.Scheme != "file" {
		t.Fatalf("%v: %v", locations, err)
	}
	region, ok := physical["region"].(map[string]any)
	if ok != hasRegion {
		t.Errorf("region %v", region)
	}
	if !hasRegion {
		return
	}
	data, err := os.ReadFile(filepath.FromSlash(u.Path))
	if err != nil {
		t.Fatal(err)
	}
	line, column, at := region["startLine"].(float64), region["startColumn"].(float64), region["byteOffset"].(float64)
	if line < 1 || column < 1 || at < 0 || int(at) > len(data) || int(line) != strings.Count(string(data[:int(at)]), "\n")+1 {
		t.Errorf("%s: region %v", u, region)
	}
}

func TestArtifactIsNeverNamedByMoreThanItsPathFromHere(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"a.json": "a.json", "./b/../a.json": "a.json", "a b/ü#.json": "a%20b/%C3%BC%23.json", filepath.Join(here, "a.json"): "a.json",
		"a:b.json": "./a:b.json", "../x.json": "file://" + filepath.ToSlash(filepath.Join(filepath.Dir(here), "x.json")),
	} {
		if got := fileURI(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func objectOf(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func itemsOf(t *testing.T, v any) []any {
	t.Helper()
	l, ok := v.([]any)
	if !ok || len(l) == 0 {
		t.Fatalf("%v is not a list with items", v)
	}
	return l
}

func textOf(t *testing.T, v any) string {
	t.Helper()
	s, ok := v.(string)
	if !ok {
		t.Fatalf("%v is not a text", v)
	}
	return s
}

// One case a document, and the numbers add up.
func TestJUnitNeverLosesADocument(t *testing.T) {
	folder := mixed(t)
	write(t, filepath.Join(folder, "activities", "\x01\xff.json"), "{")
	_, out, _ := validate(t, "-o", "junit", "--strict", folder, "missing.json")
	var suites junitSuites
	if err := xml.Unmarshal([]byte(out), &suites); err != nil || !strings.HasPrefix(out, xml.Header) {
		t.Fatal(err, out[:100])
	}
	_, found := reported(t, folder, "missing.json")
	if suites.Tests != len(found) || suites.Suite.Tests != len(found) || len(suites.Suite.Cases) != len(found) {
		t.Errorf("%d cases, said %d and %d, want %d", len(suites.Suite.Cases), suites.Tests, suites.Suite.Tests, len(found))
	}
	failures, errs := 0, 0
	names := map[string]bool{}
	for i, c := range suites.Suite.Cases {
		f := found[i]
		names[c.Name] = true
		if c.Failure != nil {
			failures++
			if strings.Count(c.Failure.Text, "\n")+1 != len(f.Problems)+len(f.Findings) || c.Failure.Message == "" {
				t.Errorf("%s: %d problems, %d findings, and %q", c.Name, len(f.Problems), len(f.Findings), c.Failure.Text)
			}
		}
		if c.Error != nil {
			errs++
		}
		if (c.Failure != nil) != (len(f.Problems)+len(f.Findings) > 0) || (c.Error != nil) != (f.Error != "") {
			t.Errorf("%s: %+v", c.Name, c)
		}
	}
	if failures != suites.Failures || failures != suites.Suite.Failures || errs != 1 || suites.Errors != 1 || len(names) != len(found) {
		t.Errorf("%d failures, said %d; %d errors; %d names", failures, suites.Failures, errs, len(names))
	}
}

// Members of the JSON report that others read; they stay.
func TestJSONReportNeverLosesAMember(t *testing.T) {
	_, out, _ := validate(t, "-o", "json", corpus(t, "invalid", 90)[0], corpusFolder+"/lint/no-gps-bbox.json", "missing.json")
	var found []map[string]any
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 3 {
		t.Fatal(err, out)
	}
	keys := func(v any) string {
		var names []string
		for name := range v.(map[string]any) {
			names = append(names, name)
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for i, want := range []string{"file findings form problems valid", "file findings form problems valid", "error file findings form problems valid"} {
		if keys(found[i]) != want {
			t.Errorf("members %s, want %s", keys(found[i]), want)
		}
	}
	if got := keys(itemsOf(t, found[0]["problems"])[0]); got != "column expected found keyword line message offset pointer" && got != "column found keyword line message offset pointer" {
		t.Errorf("members of a problem: %s", got)
	}
	if got := keys(itemsOf(t, found[1]["findings"])[0]); got != "code column line message offset pointer severity" {
		t.Errorf("members of a finding: %s", got)
	}
	if !reflect.DeepEqual(found[1]["problems"], []any{}) || !reflect.DeepEqual(found[0]["findings"], []any{}) {
		t.Error("nothing is not the empty list")
	}
}

func TestKeywordIsNeverWithoutARule(t *testing.T) {
	known := map[string]bool{}
	for _, r := range (&checker{lint: true}).rules() {
		if known[r.id] || r.explanation == "" {
			t.Errorf("rule %+v", r)
		}
		known[r.id] = true
	}
	// All keywords of the schema but those that only lead to others.
	var walk func(v any)
	walk = func(v any) {
		schema, _ := v.(map[string]any)
		for keyword, value := range schema {
			switch keyword {
			case "$schema", "title", "description", "$ref":
			case "properties", "$defs":
				for _, member := range value.(map[string]any) {
					walk(member)
				}
			case "items":
				walk(value)
			default:
				if !known[keyword] {
					t.Errorf("%s has no rule", keyword)
				}
			}
		}
	}
	walk(objectOf(t, activityschema.Schema()))
	// And whatever is really found.
	for _, folder := range []string{"invalid", "lint"} {
		_, found := reported(t, corpus(t, folder, 60)...)
		for _, f := range found {
			for _, p := range f.Problems {
				if !known[p.Keyword] {
					t.Errorf("%s: %s has no rule", f.File, p.Keyword)
				}
			}
		}
	}
}

func TestAllowedPrivacyIsNeverAnErrorOfTheReport(t *testing.T) {
	for _, r := range (&checker{lint: true, allowPrivacy: true}).rules()[len(keywordRules):] {
		if r.severity != activityschema.SeverityWarning {
			t.Errorf("%s is an %s", r.id, r.severity)
		}
	}
	if n := len((&checker{}).rules()); n != len(keywordRules) {
		t.Errorf("%d rules without lint", n)
	}
}

// The document for people has the same rules, in the same words.
func TestDocumentedRulesAreNeverOthers(t *testing.T) {
	data, err := os.ReadFile("../../docs/activity.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9-]+)` \\| (error|warning) \\| (.+) \\|$")
	var got []rule
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		got = append(got, rule{m[1], activityschema.Severity(m[2]), m[3]})
	}
	if want := (&checker{lint: true}).rules(); !slices.Equal(got, want) {
		t.Errorf("docs/activity.md has %d rules, want %d:", len(got), len(want))
		for _, r := range want {
			if !slices.Contains(got, r) {
				t.Logf("| `%s` | %s | %s |", r.id, r.severity, r.explanation)
			}
		}
	}
}
