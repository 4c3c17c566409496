package activityschema_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cairn-id/cairn/activityschema"
)

// homes says where an object of each table lives in the full documents.
var homes = map[string]struct{ file, pointer string }{
	"index":            {"index-full.json", ""},
	"owner":            {"index-full.json", "/owner"},
	"shard":            {"index-full.json", "/shards/0"},
	"activity_summary": {"index-full.json", "/activities/0"},
	"detail":           {"detail-full.json", ""},
	"lap":              {"detail-full.json", "/laps/0"},
	"timeseries":       {"detail-full.json", "/timeseries"},
}

// edited returns a full document after change was applied to its object of
// table.
func edited(t *testing.T, table string, change func(object map[string]any)) []byte {
	t.Helper()
	var root any
	must(t, json.Unmarshal(document(t, homes[table].file), &root))
	at := root
	for _, token := range strings.Split(homes[table].pointer, "/")[1:] {
		if items, ok := at.([]any); ok {
			at = items[0]
		} else {
			at = at.(map[string]any)[token]
		}
	}
	change(at.(map[string]any))
	data, err := json.Marshal(root)
	must(t, err)
	return data
}

// allNames are the member names of all tables, and some of none.
func allNames() []string {
	names := map[string]bool{"weather": true, "wind": true, "x": true, "": true, "ID": true}
	for _, fields := range tables {
		for _, f := range fields {
			names[f.name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// A name that occurs in a nested object is not thereby listed above it.
func TestUnlistedMemberIsRefused(t *testing.T) {
	for table, fields := range tables {
		for _, name := range allNames() {
			if slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
				continue
			}
			for _, value := range []any{nil, map[string]any{}} {
				_, found := answer(t, activityschema.Options{},
					edited(t, table, func(o map[string]any) { o[name] = value }))
				want := []string{homes[table].pointer + "/" + name + " additionalProperties"}
				if diff := cmp.Diff(want, places(found)); diff != "" {
					t.Errorf("%s with the member %q: %v (-want +got):\n%s", table, name, value, diff)
				} else if !strings.Contains(found[0].Message, `"`+name+`"`) {
					t.Errorf("%s: message %q does not name %q", table, found[0].Message, name)
				}
			}
		}
	}
}

func TestMissingRequiredMemberIsRefused(t *testing.T) {
	for table, fields := range tables {
		for _, f := range fields {
			found := problems(t, edited(t, table, func(o map[string]any) { delete(o, f.name) }))
			var want []string
			if f.required {
				want = []string{homes[table].pointer + " required"}
			}
			if diff := cmp.Diff(want, places(found)); diff != "" {
				t.Errorf("%s without %s (-want +got):\n%s", table, f.name, diff)
			}
			if f.required && !strings.Contains(found[0].Message, `"`+f.name+`"`) {
				t.Errorf("%s: message %q does not name %q", table, found[0].Message, f.name)
			}
		}
	}
}

// Each field of each table against values of every type and at every bound;
// the other library says by the specification's row which of them fit.
func TestFieldRefusesValuesOutsideItsRange(t *testing.T) {
	var probes []any
	for _, text := range []string{
		`null`, `true`, `false`, `-1`, `0`, `1`, `1.0`, `1.5`, `-0.0`, `1e3`, `18446744073709551616`, `1.0000000000000000001`,
		`""`, `"x"`, `"1.0"`, `"true"`, `"1"`, `"public"`, `"road"`, `"manual"`, `"cycling"`, `"2026-05-17T06:30:00Z"`,
		`[]`, `[1]`, `[1,2]`, `[1,2,3]`, `[1,2,3,4]`, `[1,2,3,4,5]`, `[1.5,2]`, `[null,1]`, `["x"]`, `[[]]`, `{}`, `{"x":1}`,
	} {
		probes = append(probes, json.RawMessage(text))
	}
	accepted := 0
	for table, fields := range tables {
		for _, f := range fields {
			row := compile(t, asJSON(t, schemaOf(f.shape)))
			at := homes[table].pointer + "/" + f.name
			for _, probe := range probes {
				_, found := answer(t, activityschema.Options{},
					edited(t, table, func(o map[string]any) { o[f.name] = probe }))
				want := row.Validate(asJSON(t, probe)) == nil
				if want {
					accepted++
				}
				if got := len(found) == 0; got != want {
					t.Errorf("%s.%s = %s: accepted %t, want %t", table, f.name, probe, got, want)
				}
				for _, p := range found {
					if p.Pointer != at && !strings.HasPrefix(p.Pointer, at+"/") {
						t.Errorf("%s.%s = %s: problem %+v", table, f.name, probe, p)
					}
				}
			}
		}
	}
	if accepted < 200 {
		t.Errorf("only %d values were to be accepted: the rows are not what they seem", accepted)
	}
}

// asJSON returns v as the other library reads it.
func asJSON(t *testing.T, v any) any {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return decode(t, data)
}

func TestProblemsAreLimitedAndOrdered(t *testing.T) {
	many := make([]any, 3*activityschema.MaxProblems)
	for i := range many {
		many[i] = "x"
	}
	data := edited(t, "detail", func(o map[string]any) {
		o["timeseries"] = map[string]any{"t": many[:60], "hr_bpm": many, "power_w": many}
		o["title"] = 1
	})
	first := problems(t, data)
	if len(first) != activityschema.MaxProblems {
		t.Fatalf("%d problems, want %d", len(first), activityschema.MaxProblems)
	}
	for range 20 {
		if diff := cmp.Diff(first, problems(t, data)); diff != "" {
			t.Fatalf("the same document, other problems:\n%s", diff)
		}
	}
	unlisted := edited(t, "owner", func(o map[string]any) {
		for i := range many {
			o[strings.Repeat("x", i+1)] = 1
		}
	})
	if n := len(problems(t, unlisted)); n != activityschema.MaxProblems {
		t.Errorf("%d problems for %d unlisted members, want %d", n, len(many), activityschema.MaxProblems)
	}
}
