package activityschema_test

import (
	"strings"
	"testing"
)

func TestPositionNeverHidesInJSONInAText(t *testing.T) {
	onlyOne(t, []string{
		`"x": "{\"type\": \"Point\", \"coordinates\": [8.54, 47.37]}"`, `"x": " {\"polyline\": \"_p~iF~ps|U_ulLnnqC\"}"`, `"x": "[[47.3713, 8.5421]]"`, `"home": "[47.37, 8.54]"`, `"x": "{\"home\": [473712900, 85421100]}"`,
		`"x": "{\"lat\": 47.37129, \"long\": 8.54211}"`, `"x": "{\"a\": [{\"start_lat\": 47.371, \"start_lng\": 8.542}]}"`, `"a": {"b": ["{\"latlng\": [47, 8]}"]}`,
	})
	nothing(t, []string{
		`"x": "{}"`, `"x": "[]"`, `"x": "[72.35, 71.85]"`, `"x": "{\"home\": true, \"hr\": [61.12, 72.23]}"`, `"power": "{\"x\": [61.1234, 12.2345]}"`,
		`"x": "[lap] 3.5 km"`, `"x": "{\"type\": \"Point\", \"coordinates\": [8.54"`, `"x": "{\"n\": \"{\\\"n\\\": 1}\"}"`,
	})
}

func TestJSONInATextNeverKeepsLintBusy(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", 40) + strings.Repeat("[47.37129,8.54211,[", 10_000) + strings.Repeat("]", 20_040), `{` + strings.TrimSuffix(strings.Repeat(`\"lat\":47.3,`, 20_000), ",") + `}`,
		`[` + strings.TrimSuffix(strings.Repeat(`\"[47.37129,8.54211]\",`, 20_000), ",") + `]`,
	} {
		keepsUp(t, text[:20], detailWith(t, `"privacy": "no_gps", "custom": {"x": "`+text+`"}`))
		keepsUp(t, text[:20], detailWith(t, `"privacy": "blur_start", "custom": {"x": "`+text+`"}`))
	}
	keepsUp(t, "many", detailWith(t, `"privacy": "no_gps", "custom": {"x": [`+strings.TrimSuffix(strings.Repeat(`"[47.37,8.5]",`, 30_000), ",")+`]}`))
}
