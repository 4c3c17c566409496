package activityschema_test

import (
	"strings"
	"testing"

	"github.com/cairn-id/cairn/activityschema"
)

// There may be as many as a document has bytes for.
func TestManyHalfSurrogatesAreNeverAllTold(t *testing.T) {
	const n = 1000
	data := `{"bas_version": "1.0", "id": "a", "title": "Ride", "sport": "cycling", "started_at": "2026-05-17T06:30:00Z", "privacy": "public", "laps": [],
		"timeseries": {"t": []}, "custom": {"all": [` + strings.TrimSuffix(strings.Repeat(`"\ud800",`, n), ",") + `]}}`
	found := activityschema.Lint(mustDecode(t, "halves", []byte(data)))
	if len(found) != activityschema.MaxFindingsPerCode {
		t.Fatalf("%d findings", len(found))
	}
	last := found[len(found)-1]
	if last.Code != activityschema.CodeLoneSurrogate || last.Pointer != "/custom/all/9" || last.Message != "... and 991 more" {
		t.Errorf("%+v", last)
	}
}

// What was not validated has any depth, and may end anywhere.
func TestSearchForHalfSurrogatesNeverRunsAstray(t *testing.T) {
	for _, value := range []string{strings.Repeat(`["\ud800",`, 1_000_000), strings.Repeat(`{"\ud800":`, 1_000_000), `["\ud800`, `{"\ud8`, `"\ud800`} {
		if _, err := activityschema.DecodeForLint([]byte(`{"laps": [], "custom": {"a": ` + value)); err == nil {
			t.Errorf("%.20s was decoded", value)
		}
		_, _ = activityschema.DecodeForLint([]byte(`{"laps": [], "custom": {"a": ` + value + strings.Repeat("]", 1_000_000) + `}}`))
	}
}
