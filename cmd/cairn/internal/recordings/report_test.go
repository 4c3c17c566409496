package recordings

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// Members of the JSON report that others read; they stay.
func TestJSONReportHasTheMembersThatOthersRead(t *testing.T) {
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
		same(t, "members", keys(found[i]), want)
	}
	if got := keys(found[0]["problems"].([]any)[0]); got != "column expected found keyword line message offset pointer" && got != "column found keyword line message offset pointer" {
		t.Errorf("members of a problem: %s", got)
	}
	same(t, "members of a finding",
		keys(found[1]["findings"].([]any)[0]), "code column line message offset pointer severity")
	for _, empty := range []any{found[1]["problems"], found[0]["findings"], found[2]["problems"]} {
		if list, ok := empty.([]any); !ok || len(list) != 0 {
			t.Errorf("nothing is not the empty list: %v", empty)
		}
	}
}

// The document for people lists every code with its severity, and every keyword that a
// problem can have.
func TestDocumentedRulesAreThoseOfThePackage(t *testing.T) {
	data, err := os.ReadFile("../../../../docs/activity.md")
	must(t, err)
	row := regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9-]+)` \\| (?:(error|warning) \\| )?.+\\.( |$)")
	var got []string
	keywords := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(data), -1) {
		if m[2] == "" {
			keywords[m[1]] = true
		} else {
			got = append(got, m[1]+" "+m[2])
		}
	}
	var want []string
	for _, code := range activityschema.Codes() {
		want = append(want, code+" "+string(activityschema.SeverityOf(code)))
	}
	equal(t, "docs/activity.md (-package +documented)", got, want)
	_, found := reported(t, corpus(t, "invalid", 90)...)
	for _, f := range found {
		for _, p := range f.Problems {
			if !keywords[p.Keyword] {
				t.Errorf("%s: docs/activity.md does not explain %s", f.File, p.Keyword)
			}
		}
	}
}
