package activityschema_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/cairn-id/cairn/activityschema"
)

func ExampleLint() {
	document, problems, err := activityschema.Decode(context.Background(), strings.NewReader(`{
		"bas_version": "1.0", "id": "2026-05-17-run", "title": "Morning run", "sport": "running",
		"started_at": "2026-05-17T06:30:00Z", "duration_s": 1800, "moving_time_s": 1900,
		"start_latlng": [47.3712, 8.5421], "laps": [], "timeseries": {"t": []}, "privacy": "no_gps", "custom": {}
	}`))
	if err != nil || len(problems) > 0 {
		log.Fatal(err, problems)
	}
	for _, f := range activityschema.Lint(document) {
		fmt.Printf("%s: %s: %s (%s)\n", f.Severity, f.Pointer, f.Message, f.Code)
	}
	// Output:
	// warning: /moving_time_s: 1900 seconds of moving in 1800 seconds (moving-over-duration)
	// error: /start_latlng: shows where the activity was, which is no_gps: leave it out (privacy-no-gps)
}

func ExampleLibrary() {
	library := activityschema.NewLibrary()
	for file, text := range map[string]string{
		"index.json": `{"bas_version": "1.0", "owner": {"handle": "mira", "display_name": "Mira"}, "generated_at": "2026-05-17T20:00:00Z", "activities": [
			{"id": "run", "title": "Run", "sport": "running", "started_at": "2026-05-17T06:30:00Z", "privacy": "no_gps", "detail_url": "activities/run.json"}]}`,
		"activities/run.json": `{"bas_version": "1.0", "id": "run", "title": "Run", "sport": "running", "started_at": "2026-05-17T06:30:00Z",
			"laps": [], "timeseries": {"t": []}, "privacy": "public", "custom": {}}`,
	} {
		document, problems, err := activityschema.Decode(context.Background(), strings.NewReader(text))
		if err != nil || len(problems) > 0 {
			log.Fatal(err, problems)
		}
		library.Add(file, document)
	}
	for _, f := range library.Findings() {
		fmt.Printf("%s: %s: %s: %s (%s)\n", f.File, f.Severity, f.Pointer, f.Message, f.Code)
	}
	// Output:
	// index.json: error: /activities/0/privacy: no_gps here, public in the detail: give both the stricter one (privacy-mismatch)
}
